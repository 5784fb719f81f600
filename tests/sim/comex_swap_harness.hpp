// tests/sim/comex_swap_harness.hpp: a node whose processes need more memory than it has, in one
// thread and from one seed. Processes are blocking programs that use the library's node table and
// residency. The agent and its store are simulated, with a number for each page.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onesided/swap/residency.hpp"
#include "pgas_fibers.hpp"
#include "sim/alarm.hpp"
#include "sim/world.hpp"

namespace tanada::test {

namespace swap = onesided::swap;

enum class swap_weather {
  sweeps,
  gets,
  locks,
  messages,
  allocations,
  spins,
  unseen,
  mixed,
  failing,
  strangers,
  polls,
  tasks
};
// Bugs that a run has to find.
enum class swap_plant {
  none,
  touches_while_waiting,
  unmarked_writes,
  lost_write_back,
  early_in,
  never_prepared,
  kept_pins,
  age_of_last_wait,
  cache_beside_budget,
  lost_wakeups,
  zeros_as_stored,
  hidden_left_out
};

// Time advances a little with each poll, and by sleeps.
class fiber_clock final : public seams::clock {
 public:
  explicit fiber_clock(sim::world &owner) : world_{owner} {}
  uint64_t now_ns() noexcept override {
    now_ = std::max(now_, world_.now_ns()) + 50;
    return now_;
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    sleep(duration_ns);
  }

  std::function<void(uint64_t)> sleep;

 private:
  sim::world &world_;
  uint64_t now_ = 1;
};

// Memory of one process, as a number for each page.
struct swap_heap {
  static constexpr uint64_t nothing = 0xEEEEEEEEEEEEEEEE;

  std::vector<uint64_t> memory, store;
  std::vector<uint64_t> truth;        // the expected number of each page
  std::vector<uint64_t> write_count;  // of each page
  std::vector<bool> is_touched,
      is_cached;  // has storage in DRAM while resident; resident while its process is swapped out
  std::vector<uint32_t> users;  // requests that hold a cached page
  std::vector<uint64_t> used_at;
  std::vector<swap::page_bits::word> words, left_out_words;
  std::vector<bool> has_written;  // accessed by its own process since the last check
  bool is_here = true;
  uint64_t coming = 0;  // pages being swapped in

  uint64_t touched_count() const;
  // Some writes make a page zero again.
  void write(uint32_t page);
};

struct swap_setting {
  uint32_t ranks = 4, pages = 8, rounds = 4;
  bool has_strangers = false;  // pages that remote processes use
  uint64_t budget_pages = 16;
  uint32_t slots = 1, moves_max = 2;
  uint64_t cache_pages = 4;
  uint64_t fixed_pages_max = 0;  // pinned memory, at most; it changes while ranks run
  uint64_t compute_ns_max = 2'000'000, page_ns = 20'000;  // time to move a page
};

class swap_run {
 public:
  swap_run(uint64_t seed, swap_weather kind, swap_plant planted = swap_plant::none);
  swap_run(uint64_t seed, swap_weather kind, const swap_setting &chosen);
  ~swap_run();

  std::string run();  // empty: no error
  uint64_t trace() {
    return world_.trace();
  }
  const swap::node_counters &counters() const {
    return board_->counters();
  }
  const swap_setting &chosen() const {
    return chosen_;
  }
  uint64_t now_ns() {
    return world_.now_ns();
  }
  bool waits_for_messages() const {
    return kind_ == swap_weather::messages || kind_ == swap_weather::mixed;
  }

 private:
  struct process;

  void make();
  void play(uint32_t rank);  // comex_swap_harness.cc
  bool one_of(process &self, uint32_t round);
  bool compute(process &self);
  bool touch_own(process &self, uint32_t page, bool is_writing);
  bool bring_own(process &self, uint32_t page);
  bool barrier(process &self);
  bool with_lock(process &self);
  bool use_others(process &self);
  bool message(process &self);
  swap::page_access access_to(uint32_t target, sim::prng &random);
  void serve_strangers(uint32_t rank);
  bool allocate(process &self);
  bool spin(process &self);
  bool poll_counter(process &self);
  bool run_tasks(process &self);
  bool make_way(process &self);
  bool add_to_counter(process &self, uint32_t home, uint64_t amount, uint64_t *before);
  void check_waits_for_room();
  bool wait(process &self, swap::wait_kind kind, const std::function<bool()> &is_over);

  // Called outside the world's lock, since programs on several stacks continue there.
  void later(uint64_t at_ns, std::function<void()> action) {
    world_.schedule(
        at_ns, [this, action = std::move(action)]() mutable { due_.push_back(std::move(action)); });
  }
  bool step();
  void resume(size_t index);
  void make_alarm();

  void agent();  // comex_swap_agent.cc
  void take(const swap::move_order &which);
  void move_out(uint32_t rank);
  void move_in(uint32_t rank);
  void serve(swap::page_request &which);
  void recycle();
  void trim(uint64_t to_size);
  bool has_room(uint64_t size);
  void drop_page(uint32_t rank, uint32_t page);
  bool leave_out(uint32_t rank, uint32_t page);
  uint64_t cached_bytes() const;
  void check_budget();
  void change_fixed();
  void found(const std::string &what);

  swap_setting chosen_;
  swap_weather kind_;
  swap_plant planted_;
  sim::world world_;
  fiber_clock clock_{world_};
  std::vector<std::byte> memory_;
  size_t running_ = 0;  // of fibers_
  std::optional<sim::alarm> alarm_;
  std::optional<swap::node_table> board_;
  std::vector<swap_heap> heaps_;
  std::vector<swap::page_bits> stored_, left_out_;
  std::vector<std::unique_ptr<process>> processes_;
  std::unique_ptr<fiber_set> fibers_;
  std::vector<std::function<void()>> due_;
  std::string why_;
  uint64_t uses_ = 0;
  std::vector<swap::page_request *> asked_, granted_;
  uint64_t fixed_pages_ = 0, fixed_since_ns_ = 0;
  uint64_t promised_ = 0;            // bytes being read into the cache
  uint32_t over_ = 0, serving_ = 0;  // processes that have ended; those that serve other nodes
  bool is_quiet_ = false;            // other nodes send no more requests
  // Used by the program itself.
  std::vector<uint64_t> arrivals_;
  std::vector<bool> locks_;
  std::vector<uint64_t> sent_;
  uint64_t flag_ = 0;
  std::vector<uint64_t> counters_;  // one for each round, as rank `round` modulo their number has
                                    // it in its first page
};

}  // namespace tanada::test
