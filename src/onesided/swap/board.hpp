// onesided/swap/board.hpp: what the processes of a node know of one another's memory, in memory
// that they share.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "onesided/swap/pages.hpp"
#include "onesided/swap/scheduler.hpp"
#include "seams/alarm/alarm.hpp"
#include "seams/alarm/shared_alarm.hpp"
#include "seams/clock/clock.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::comex::swap {

inline constexpr auto relaxed = std::memory_order_relaxed;

struct board_options {
  uint32_t rank_count = 1;
  uint64_t budget = 0;    // bytes of the node's DRAM for all of its ranks
  uint64_t reserved = 0;  // bytes of them that are not for memory of ranks that are here, at first;
                          // see board::reserve_set()
  uint32_t slots = 1;     // ranks that run at a time
  uint32_t moves_max = 2;    // ranks that move at a time, each way
  bool has_servers = false;  // processes elsewhere ask for pages, too: by their targets
  uint64_t cache_size = 0;   // bytes beyond it that pages of ranks that are away may always take;
                             // they may take of it what nobody needs
  uint64_t copies_size = 0;  // bytes of memory for copies of pages that are in the store alone, for
                             // who only reads them; 0: none
  uint64_t patience_ns = 1'000'000;
  uint64_t slice_ns = 1'000'000'000;
  uint64_t room_slice_ns =
      5'000'000'000;  // at most; less where memory moves fast, see board::room_slice_ns()
  uint64_t stuck_ns = 20'000'000;
};

// Of a node, since the start.
struct board_counters {
  std::atomic<uint64_t> bytes_out, bytes_in;  // moved by ranks that left and came
  std::atomic<uint64_t> bytes_served;         // read for others
  std::atomic<uint64_t> bytes_copied;         // of them, into copies
  std::atomic<uint64_t> bytes_written_back;   // written by others meanwhile, and then to the store
  std::atomic<uint64_t> move_ns;              // somebody moved
  std::atomic<uint64_t> swaps_out, swaps_in;
  std::atomic<uint64_t> requests;       // for pages of who is away
  std::atomic<uint64_t> beyond_budget;  // ranks let in beyond it
  std::atomic<uint64_t> events_lost;    // that the trace does not have
  std::atomic<uint64_t>
      peak_size;  // bytes of DRAM that all ranks had together at most, as far as it was measured
};

struct state_event {
  uint64_t at_ns;
  uint32_t rank;
  rank_state from, to;
};

// Somebody wants pages of a rank that is away. Lies in the board: a process has some of its own,
// and others for those elsewhere.
struct alignas(64) request {
  static constexpr uint32_t run_count_max = 30;
  static constexpr uint32_t page_count_max =
      256;  // of all runs: what one request keeps in DRAM at most

  static constexpr uint32_t no_copy = ~uint32_t{0};

  enum class step : uint32_t { none, posted, taken, granted, done };

  std::atomic<step> at;
  uint32_t origin, target;
  uint32_t is_reading;      // copies will do
  uint32_t is_served;       // granted by the agent, which recycles it
  uint32_t copy = no_copy;  // of the board's, in which the pages of all runs lie, one behind the
                            // other; no_copy: they are in their rank's memory
  uint32_t run_count, page_count;
  page_run runs[run_count_max];

  std::span<const page_run> pages() const noexcept {
    return {runs, run_count};
  }
};
static_assert(sizeof(request) % 64 == 0);

// A move of a rank's memory, which the agent makes.
struct order {
  enum class way : uint8_t { out, in };
  way to;
  uint32_t rank;
};

// A view of memory that all processes of the node have: `rank` is an index among them. One process
// creates the board; others look at it from then on. One process's thread is the agent's.
//
// All that changes a state takes the lock, says what happened, does what decide() says then, and
// rings whom it concerns. The lock is held for microseconds, and never while anything is waited
// for. If a process dies with it, the board fails.
//
// Who may touch a rank's memory: the rank itself while it is running (and where it waits as `held`
// or `served`, those that it waits for); others between pin() and unpin(), or from a request's
// grant to its done(). A rank is moved out when it is `closed`, and has no pins left. All waits for
// the board are bounded by a failure of it, which comes when a process dies.
//
// Thread safety: of a rank's calls, one thread at a time; the agent's calls, one thread; pin,
// unpin, fail, and what is const, any.
class board {
 public:
  static constexpr uint32_t requests_of_rank = 32;  // of one origin, under way at a time

  static constexpr size_t copy_size = request::page_count_max * page_size;

  static size_t memory_size(uint32_t rank_count, bool has_servers = false,
                            uint64_t copies_size = 0) noexcept;  // bytes

  // Zeros, which nobody looks at yet, aligned to 64 bytes. invalid, with a message.
  static status create(std::span<std::byte> memory, const board_options &options);
  explicit board(std::span<std::byte> memory, port::clock &time = port::monotonic_clock(),
                 port::alarm &alarm = port::futex_alarm()) noexcept;

  const board_options &options() const noexcept;
  // Bytes for the memory of ranks that are here: what is not reserved for the cache, for buffers,
  // and for what cannot leave, as MPI's.
  uint64_t budget_for_ranks() const noexcept;
  uint64_t reserved() const noexcept;
  void reserve_set(uint64_t bytes) noexcept;  // the agent's; ranks leave for it, if they have to
  uint32_t rank_count() const noexcept {
    return options().rank_count;
  }

  // A rank's own. Before start() it is gone. Afterwards it is ready, and not running.
  void start(uint32_t rank, int32_t process_id);
  void finish(uint32_t rank);                 // running becomes gone: its memory is here, and stays
  void leave(uint32_t rank, wait_kind kind);  // running becomes wait
  // Its wait is over. True: it is running. False: it will be; sleep(), then attend to
  // should_prepare() and has_landed(), and ask again.
  bool try_enter(uint32_t rank);
  // swap_out_wait: it is to find out which pages it has written, clear their bits in `stored`, and
  // say prepared(). Cheap.
  bool should_prepare(uint32_t rank) const noexcept;
  void prepared(uint32_t rank);
  // swap_in, and all is there: it is to watch its pages again, and say arrived().
  bool has_landed(uint32_t rank) const noexcept;
  void arrived(uint32_t rank);
  void touched(
      uint32_t rank,
      uint64_t here);  // bytes of its memory in DRAM, said by it while it runs or as it leaves

  // Memory it is about to allocate, while it runs. granted: it may be touched. wait: leave(), and
  // enter again, when it is granted. never: it is more than the budget has.
  enum class room : uint8_t { granted, wait, never };
  room try_reserve(uint32_t rank, uint64_t bytes);
  void release(uint32_t rank, uint64_t bytes);

  // Others want its slot or its room: at the next occasion it leaves as `others`, and comes back at
  // once. Cheap.
  bool is_asked(uint32_t rank) const noexcept;

  // Access by others. False: it is closed; ask for pages. Never held across a wait.
  bool pin(uint32_t target) noexcept;
  void unpin(uint32_t target) noexcept;

  // Who asks for pages: ranks, and, with has_servers, each rank for processes elsewhere that want
  // its own. Those are not rung: they look.
  uint32_t origin_count() const noexcept {
    return rank_count() * (options().has_servers ? 2 : 1);
  }
  uint32_t server_of(uint32_t rank) const noexcept {
    return rank_count() + rank;
  }
  // Null: the origin has all of its requests under way. At most request::run_count_max runs, and
  // page_count_max pages.
  request *post(uint32_t origin, uint32_t target, std::span<const page_run> pages,
                bool is_reading = false) noexcept;
  static bool is_granted(const request &which) noexcept {
    return which.at.load(std::memory_order_acquire) == request::step::granted;
  }
  // Of a granted request: the page that holds this byte of its target's memory, in a copy. Null: it
  // is there itself.
  const std::byte *copied(const request &which, uint64_t offset) const noexcept;
  void done(request &which) noexcept;  // its pages are no longer touched, and cleared in `stored`
                                       // where they were written

  // The agent's.
  // A move to begin with: the rank is swap_out, closed, and has no pins; or it is swap_in. Pages of
  // it may be in DRAM already, for requests, and are as others have written them. Decides anew,
  // too: called at least each millisecond.
  std::optional<order> next_order();
  // It is made. here: bytes of it in DRAM, moved: bytes through the store.
  struct move_result {
    uint64_t here = 0, away = 0, moved = 0;
  };
  void moved(const order &which, const move_result &how);
  // A request whose target is away: the pages are to be brought to its memory and to stay there
  // until is_done(). Meanwhile it may come, and run; it does not leave again before is_done(), or
  // before it is granted with a copy. Requests for who is not away are granted by this call.
  request *next_request() noexcept;
  // copy: set before where the pages are in one.
  void grant(request &which) noexcept;
  std::span<std::byte> copies() const noexcept;  // as many as there are, of copy_size; each is the
                                                 // agent's but between a grant and is_done()
  static bool is_done(const request &which) noexcept {
    return which.at.load(std::memory_order_acquire) == request::step::done;
  }
  void recycle(request &which) noexcept;  // is_done
  // Bytes of pages in DRAM of ranks that are away; said before there are more. The answer: bytes
  // that they may take now.
  uint64_t cached(uint64_t bytes) noexcept;
  void agent_sleep(uint64_t timeout_ns) noexcept;  // until something is posted or decided; at once,
                                                   // if it was since the last sleep
  void ring_agent() noexcept;
  // Changes of states, oldest first, that this call has not given yet.
  size_t take_events(std::span<state_event> into);

  // The first text is kept, one line; all waits end.
  void fail(const char *text) noexcept;
  const char *failure() const noexcept;  // null: none
  // After a failure, for who ends the job because of it: peer_lost, with the text as the message.
  // One process has it at once; others when that one should have ended them with itself, so that it
  // is said once.
  status failed() noexcept;

  rank_state state(uint32_t rank) const noexcept;
  rank_view look(uint32_t rank) const noexcept;  // no lock: numbers may be of different moments
  int32_t process_of(uint32_t rank) const noexcept;
  // What people know a rank by, in the job: itself, unless told before others look.
  int32_t number_of(uint32_t rank) const noexcept;
  void number_set(uint32_t rank, int32_t number) noexcept;
  board_counters &counters() noexcept;
  const board_counters &counters() const noexcept;
  port::clock &time() const noexcept {
    return *time_;
  }

  // Until something of this rank changes: its state, or an answer. At once, if it did since the
  // last sleep.
  void sleep(uint32_t rank, uint64_t timeout_ns) noexcept;
  void ring(uint32_t rank) noexcept;

 private:
  struct memory;
  struct place;
  class hold;
  friend struct board_testing;

  place &of(uint32_t rank) const noexcept;
  request *requests_of(uint32_t origin) const noexcept;
  void ring_origin(uint32_t origin) noexcept;
  // The lock is held.
  void change(uint32_t rank, rank_state to) noexcept;
  enum class caller { rank, agent };
  void apply(caller by = caller::rank) noexcept;
  bool apply_once(caller by) noexcept;
  void grant_room(uint32_t rank) noexcept;
  uint64_t room_slice_ns() const noexcept;
  void warn() noexcept;
  node_view view() noexcept;

  memory *memory_;
  port::clock *time_;
  port::alarm *alarm_;
};

}  // namespace tanada::comex::swap
