// tests/sim/pgas_harness.hpp: PEs in one world, each with an endpoint that answers, lanes and
// contexts. Random programs run from one seed, a fiber each. They are checked against models of
// memory that one context writes to (pgas_model.hpp) and of words that all update.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "onesided/job/remote.hpp"
#include "onesided/job/responder.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"
#include "sim/pgas_context.hpp"
#include "sim/pgas_fibers.hpp"
#include "sim/pgas_model.hpp"
#include "sim/world.hpp"

namespace tanada::test {

// ordered, unordered: a network without faults. narrow: short queues, often full. dying: a PE dies.
// parted: two PEs cannot reach each other for a while. lossy: operations fail with peer_lost now
// and then.
enum class pgas_weather : uint8_t { ordered, unordered, narrow, dying, parted, lossy };

// Faults that are planted to show that the checks find them.
enum class pgas_plant : uint8_t {
  none,
  lost,
  corrupt,
  overtaken,
  uncopied,
  early_completion,
  done_twice,
  hidden_failure,
  silent_completion,
  torn_atomic
};

// The kind of contexts: of lanes, or, in the memory of devices, of stagers. The fabric moves some
// of that memory directly.
enum class pgas_way : uint8_t { direct, staged, taken };

// Words at each PE that every context updates, after the slices.
struct shared_words {
  uint64_t tickets, added, mask, token, guess;
  uint32_t small_tickets, unused;
  uint64_t sums[4];
  double real_sums[4];
};

class pgas_run {
 public:
  pgas_run(uint64_t seed,
           pgas_weather kind,
           pgas_plant plant = pgas_plant::none,
           pgas_way way = pgas_way::direct);
  ~pgas_run();

  // "": no error.
  std::string run();
  uint64_t trace() {
    return world_.trace();
  }

 private:
  static constexpr size_t share_size = 64 << 10;  // bytes of the heap for buffers of each actor
  static constexpr uint64_t timeout_ns = 100'000'000;
  static constexpr uint64_t healthy_ns =
      timeout_ns / 2;  // no operation takes longer, except on a PE in trouble
  static constexpr uint64_t late_ns =
      2 * timeout_ns + timeout_ns / 5;  // nor any other longer than this: after a fence it waits
                                        // twice
  static constexpr uint64_t dead_ns =
      timeout_ns + 1'200'000'000;  // except where the own endpoint completes nothing any more

  static constexpr uint64_t step_count_max = 5'000'000;

  struct endpoint;  // a simulated one, with planted faults

  struct pe {
    uint32_t number = 0;
    std::vector<std::byte> memory{};
    std::vector<std::string> names{};  // of its endpoints
    std::unique_ptr<onesided::responder> answering{};
    std::unique_ptr<onesided::symmetric_map> map{};
    std::vector<std::unique_ptr<onesided::lane>> lanes{};
    std::vector<std::byte> area{};
    std::unique_ptr<onesided::stager> staging{};
    std::vector<std::unique_ptr<sim_context>> contexts{};
    bool is_dead = false;
  };

  // To the shared words of one PE.
  struct contribution {
    uint64_t tickets = 0, small_tickets = 0, added = 0, guesses_won = 0, sums = 0, real_sums = 0,
             mask = 0;
    void add(const contribution &other) {
      tickets += other.tickets;
      small_tickets += other.small_tickets;
      added += other.added;
      guesses_won += other.guesses_won;
      sums += other.sums;
      real_sums += other.real_sums;
      mask |= other.mask;
    }
    void subtract(const contribution &other) {
      tickets -= other.tickets;
      small_tickets -= other.small_tickets;
      added -= other.added;
      guesses_won -= other.guesses_won;
      sums -= other.sums;
      real_sums -= other.real_sums;
      mask &= ~other.mask;
    }
  };

  // The state of one fiber's program. Memory of _nbi operations is kept until quiet.
  struct actor {
    struct get_under_way {
      uint32_t writer, target;
      size_t cell;
      uint64_t floor;
      std::span<std::byte> bytes;
    };
    struct ticket_under_way {
      uint32_t target;
      uint64_t top_before, value;
    };
    uint32_t number = 0, context_number = 0;
    pe *home = nullptr;
    sim_context *context = nullptr;
    bool is_sharing = false;             // the context, with another actor
    uint64_t group = 0;                  // of operations between fences
    std::vector<slice_model> slices{};   // by target
    std::vector<uint64_t> bits{};        // the next to be added, by target
    std::vector<contribution> given{};   // by target
    std::vector<contribution> unsure{};  // of it: refused, or failed
    std::deque<std::vector<std::byte>> buffers{};
    std::vector<std::byte *>
        kept{};  // the same in the heap; and how much of the actor's share they take
    size_t kept_size = 0;
    std::vector<get_under_way> gets{};
    std::deque<ticket_under_way> tickets{};
    // Since the last quiet:
    std::set<uint32_t> touched{};  // targets
    bool is_owed_failure = false;  // an operation was for a PE that had died
    bool was_told = false;         // of a failure
  };

  struct shared_model {  // of the shared words of one PE
    std::set<uint64_t> tickets{}, small_tickets{}, tokens_given{}, tokens_seen{};
    uint64_t ticket_top = 0;  // above all visible ones
  };

  void fail(const std::string &why) {
    if (problem_.empty())
      problem_ = why;
  }

  // pgas_harness.cc: the world's progress and the invariants.
  void pes_open(uint32_t lane_count, uint32_t context_count);
  void pes_open_staged(uint32_t context_count);
  void map_open(pe &home, std::vector<seams::fabric_remote> remote);
  void serve(pe &home);
  std::unique_ptr<seams::fabric_endpoint> endpoint_open(pe &home,
                                                        const std::string &suffix,
                                                        const sim::fabric_options &options);
  void attend(pe &home);
  void trouble();
  bool gives_up() const {
    return kind_ == pgas_weather::lossy;
  }  // failures are not distinguished
  bool is_troubled(uint32_t one, uint32_t other) const;
  bool was_trouble() const;
  bool is_in_trouble(const actor &self) const;
  void check_now(bool is_thorough);
  void check_end();
  void check_shared(uint32_t target);
  std::byte *slice_at(uint32_t target, uint32_t writer);
  shared_words &words_at(uint32_t target) {
    return *reinterpret_cast<shared_words *>(pes_[target]->memory.data());
  }
  uint32_t other_than(uint32_t number);

  // pgas_actors.cc: the actions of programs.
  void live(actor &self);
  void act(actor &self);
  status call(actor &self, uint32_t target, const std::function<status()> &what);
  status give(actor &self,
              uint32_t target,
              const contribution &what,
              const std::function<status()> &how);
  void told_failure(actor &self);
  onesided::symmetric_address cell_of(actor &self, uint32_t target, uint32_t writer, size_t cell);
  onesided::symmetric_address word_of(actor &self, uint32_t target, const void *ours);
  shared_words &own_words(actor &self) {
    return words_at(self.home->number);
  }
  std::span<std::byte> buffer(actor &self, size_t size);
  static void scribble(std::span<std::byte> over);
  void put(actor &self, uint32_t target);
  void store_word(actor &self, uint32_t target);
  void get(actor &self, uint32_t target);
  void swap_cell(actor &self, uint32_t target);
  void put_signal(actor &self, uint32_t target);
  void fence(actor &self);
  void quiet(actor &self);
  void quiet_results(actor &self, bool is_sure);

  // pgas_shared.cc: the actions on shared words.
  void update_shared(actor &self, uint32_t target);
  void take_ticket(actor &self, uint32_t target);
  void take_small_ticket(actor &self, uint32_t target);
  void ticket_seen(uint32_t target, uint64_t ticket, uint64_t top_before);
  void pass_token(actor &self, uint32_t target);
  void guess(actor &self, uint32_t target);
  void add_and_mask(actor &self, uint32_t target);
  void accumulate(actor &self, uint32_t target);

  pgas_weather const kind_;
  pgas_plant const plant_;
  pgas_way const way_;
  sim::world world_;
  sim::clock clock_{world_};
  sim::fabric fabric_;
  sim::fabric_options lane_options_{}, answer_options_{};
  size_t copied_size_max_ = 0;
  bool has_guards_ = true;
  std::map<const std::byte *, size_t>
      device_ranges_;  // buffers that are treated as device memory, and their bytes
  std::vector<std::unique_ptr<pe>> pes_;
  std::vector<std::unique_ptr<actor>> actors_;
  std::vector<shared_model> shared_;
  fiber_set fibers_;
  std::pair<uint32_t, uint32_t> parted_{0, 0};
  uint64_t stamp_ = 0;
  std::string problem_;
};

}  // namespace tanada::test
