// onesided/swap/node_table.hpp: the node table, shared memory in which the processes of a node
// schedule their memory and request pages.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "core/base/assert.hpp"
#include "onesided/swap/pages.hpp"
#include "onesided/swap/scheduler.hpp"
#include "seams/alarm/alarm.hpp"
#include "seams/alarm/shared_alarm.hpp"
#include "seams/clock/clock.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::onesided::swap {

inline constexpr auto relaxed = std::memory_order_relaxed;

struct node_table_options {
  uint32_t rank_count = 1;
  uint64_t budget = 0;  // bytes of the node's DRAM that all of its ranks may use together
  // Bytes of the budget that are not available for resident memory, initially; see
  // `node_table::set_reserved()`.
  uint64_t reserved = 0;
  uint32_t slots = 1;      // ranks that run at a time
  uint32_t moves_max = 2;  // ranks that move at a time, in each direction
  // Processes of other nodes request pages, too, through the process that owns the pages.
  bool has_remote_origins = false;
  // Bytes that pages of swapped-out ranks may always use, in addition to `budget_for_ranks()`. They
  // may also use what resident ranks do not need of that.
  uint64_t cache_size = 0;
  // Bytes of memory for copies of pages that exist only in the store, for requests that only read;
  // 0: no copies.
  uint64_t copies_size = 0;
  uint64_t swap_out_delay_ns = 1'000'000;
  uint64_t slice_ns = 1'000'000'000;
  // Upper limit; shorter where moves are fast, see `node_table::residency_slice_ns()`.
  uint64_t residency_slice_ns = 5'000'000'000;
  uint64_t stall_timeout_ns = 20'000'000;
};

// Totals of a node, since the start.
struct node_counters {
  std::atomic<uint64_t> bytes_out, bytes_in;  // bytes moved by swapping ranks out and in
  std::atomic<uint64_t> bytes_served;         // bytes read for requests
  std::atomic<uint64_t> bytes_copied;         // bytes of these that were read into copies
  // Bytes that requests wrote while the rank was swapped out, and that were then written to the
  // store.
  std::atomic<uint64_t> bytes_written_back;
  std::atomic<uint64_t> bytes_zero;      // bytes of zeros that left DRAM and were not written
  std::atomic<uint64_t> bytes_left_out;  // bytes that ranks left in the store when swapped in
  std::atomic<uint64_t> move_ns;         // time in which at least one move was in progress
  std::atomic<uint64_t> swaps_out, swaps_in;
  std::atomic<uint64_t> requests;       // for pages of swapped-out ranks
  std::atomic<uint64_t> beyond_budget;  // ranks admitted beyond the budget
  std::atomic<uint64_t> events_lost;    // missing from the trace, because the buffer overflowed
  std::atomic<uint64_t>
      peak_size;  // bytes of DRAM that all ranks used together at most, as far as it was measured
};

struct state_event {
  uint64_t time_ns;
  uint32_t rank;
  rank_state old_state, new_state;
};

// A request for pages of a rank that may be swapped out. It lies in the node table. A process has
// some requests of its own, and others for processes of other nodes.
struct alignas(64) page_request {
  static constexpr uint32_t run_count_max = 30;
  static constexpr uint32_t page_count_max =
      256;  // pages of all runs: the most that one request keeps in DRAM

  static constexpr uint32_t no_copy = ~uint32_t{0};

  enum class stage : uint32_t { unused, claimed, posted, accepted, granted, completed };

  std::atomic<stage> current_stage;
  uint32_t origin, target;
  uint32_t is_reading;        // nonzero: a copy of the pages suffices
  uint32_t is_agent_granted;  // nonzero: granted by the agent, which recycles the request
  // Index of the copy that holds the pages of all runs, one run after the other; no_copy: the pages
  // are in their rank's memory.
  uint32_t copy = no_copy;
  uint32_t run_count, page_count;
  page_run runs[run_count_max];

  std::span<const page_run> pages() const noexcept {
    return {runs, run_count};
  }
};
static_assert(sizeof(page_request) % 64 == 0 && alignof(page_request) == 64);
static_assert(std::atomic<page_request::stage>::is_always_lock_free);
static_assert(page_request::run_count_max <= page_request::page_count_max);

// A move of a rank's memory, which the agent carries out.
struct move_order {
  enum class direction : uint8_t { swap_out, swap_in };
  direction dir;
  uint32_t rank;
};

// A process's view of the node table, which lies in memory shared by all processes of the node.
// `rank` is an index among them. One process creates the table, and the others attach to it
// afterwards. The agent's calls are made by a thread of one process.
//
// Every call that changes a state takes the lock, records the change, carries out what decide()
// returns, and wakes the ranks concerned. The lock is held for microseconds, and never across a
// wait. If a process dies while it holds the lock, the table fails.
//
// A rank's memory may be accessed by the rank itself while it is running. While it waits as
// `pinned` or `for_pages`, it may be accessed by those that the rank waits for. Others may access
// it between pin() and unpin(), or from a request's grant to complete_request(). A rank is moved
// out when it is `closed` and has no pins left. A failure of the table, such as the death of a
// process, ends every wait for it.
//
// Thread safety: one thread at a time makes a rank's calls, and one thread makes the agent's calls.
// Any thread may call pin, unpin, fail and const functions.
class node_table {
 public:
  static constexpr uint32_t requests_per_origin = 32;  // outstanding requests of one origin

  static constexpr size_t copy_size = page_request::page_count_max * page_size;

  static size_t memory_size(uint32_t rank_count,
                            bool has_remote_origins = false,
                            uint64_t copies_size = 0) noexcept;  // bytes

  // Initializes the table in memory that is zeroed, aligned to 64 bytes and not yet used by others.
  // Returns `invalid`, with a message, where the memory or the options do not fit.
  static status create(std::span<std::byte> bytes, const node_table_options &options);
  explicit node_table(std::span<std::byte> bytes,
                      seams::clock &time = seams::monotonic_clock(),
                      seams::alarm &alarm = seams::futex_alarm()) noexcept;

  const node_table_options &options() const noexcept;
  // Bytes of the budget for resident memory. The rest is reserved for the cache, for buffers, and
  // for memory that cannot be swapped out, such as MPI's.
  uint64_t budget_for_ranks() const noexcept;
  uint64_t reserved() const noexcept;
  // Called by the agent; ranks are swapped out for it where necessary.
  void set_reserved(uint64_t bytes) noexcept;
  uint32_t rank_count() const noexcept {
    return options().rank_count;
  }

  // Calls of a rank. It is `inactive` before start(), and `ready`, not yet `running`, afterwards.
  void start(uint32_t rank, int32_t process_id);
  void finish(uint32_t rank);  // `running` becomes `inactive`: the rank's memory stays in DRAM
  void begin_wait(uint32_t rank, wait_kind kind);  // `running` becomes `wait`
  // Requests to run again after a wait. True: the rank is running. False: it will run later. The
  // caller then calls sleep(), handles should_prepare() and is_swapped_in(), and tries again.
  bool try_resume(uint32_t rank);
  // True in `swap_out_wait`: the rank must find out which pages it has written, clear their bits in
  // `stored`, and call set_prepared(). Cheap.
  bool should_prepare(uint32_t rank) const noexcept;
  void set_prepared(uint32_t rank);
  // True in `swap_in` when all pages are in DRAM: the rank must watch its pages again, and call
  // complete_swap_in().
  bool is_swapped_in(uint32_t rank) const noexcept;
  void complete_swap_in(uint32_t rank);
  // The size in bytes of the rank's memory in DRAM. The rank reports it while it runs, or as its
  // wait begins.
  void set_resident_size(uint32_t rank, uint64_t size);

  // Reserves DRAM for memory that the running rank is about to allocate. `granted`: the memory may
  // be touched. `wait`: call begin_wait() and try_resume(), which succeeds when the reservation is
  // granted. `too_large`: the budget cannot hold it.
  enum class reservation : uint8_t { granted, wait, too_large };
  reservation try_reserve(uint32_t rank, uint64_t bytes);
  void release(uint32_t rank, uint64_t bytes);

  // Others need the rank's slot or its DRAM: at the next opportunity it begins a wait as
  // `swappable`, and requests to run again at once. Cheap.
  bool is_yield_requested(uint32_t rank) const noexcept;

  // Keeps a resident rank's memory in DRAM for an access by others. False: the rank is `closed`,
  // and its pages must be requested. Never held across a wait.
  bool pin(uint32_t target) noexcept;
  void unpin(uint32_t target) noexcept;
  // Some of the resident rank's pages may be only in the store: those whose bits in `left_out` are
  // set. They must be requested. Valid while the rank is pinned.
  bool has_left_out(uint32_t target) const noexcept;

  // Origins of requests: each rank and, with has_remote_origins, one more for each rank, which
  // stands for processes of other nodes that access the rank's memory. These are not woken: they
  // poll.
  uint32_t origin_count() const noexcept {
    return rank_count() * (options().has_remote_origins ? 2 : 1);
  }
  uint32_t remote_origin_for(uint32_t rank) const noexcept {
    TND_ASSERT(options().has_remote_origins && rank < rank_count());
    return rank_count() + rank;
  }
  // Posts a request of at most `page_request::run_count_max` runs and `page_count_max` pages. Null:
  // the maximum number of the origin's requests is outstanding.
  page_request *post(uint32_t origin,
                     uint32_t target,
                     std::span<const page_run> pages,
                     bool is_reading = false) noexcept;
  static bool is_granted(const page_request &request) noexcept {
    return request.current_stage.load(std::memory_order_acquire) == page_request::stage::granted;
  }
  // The address, in a copy, of this byte of the target's memory, for a granted request. Null: use
  // the target's memory itself.
  const std::byte *copy_address(const page_request &request, uint64_t offset) const noexcept;
  // The pages are no longer accessed. Where they were written, their bits in `stored` are already
  // clear.
  void complete_request(page_request &request) noexcept;

  // Calls of the agent. Returns a move to begin: the rank is in `swap_out`, closed, and has no
  // pins, or it is in `swap_in`. Some of its pages may already be in DRAM for requests, as others
  // have written them. The call also makes new decisions, so the agent calls it at least once a
  // millisecond.
  std::optional<move_order> next_move();
  // Reports a move as complete, with the bytes of the rank in DRAM, in the store, and moved through
  // the store.
  struct move_result {
    uint64_t resident_size = 0, swapped_size = 0, moved_size = 0;
    uint64_t left_out_size = 0;  // of a rank that was swapped in: bytes still in the store
  };
  void complete_move(const move_order &order, const move_result &result);
  // Returns a request whose target is swapped out. The agent brings its pages to the target's
  // memory, where they stay until is_complete(). Meanwhile the target may be swapped in and run. It
  // is not swapped out again before is_complete(), or before the request is granted with a copy.
  // Requests for resident targets are granted by this call, unless such a target has
  // left out pages.
  page_request *next_request() noexcept;
  // Set `copy` before the call, where the pages are in a copy.
  void grant(page_request &request) noexcept;
  // All copies, of `copy_size` bytes each. A copy belongs to the agent, except between a grant and
  // is_complete().
  std::span<std::byte> copies() const noexcept;
  static bool is_complete(const page_request &request) noexcept {
    return request.current_stage.load(std::memory_order_acquire) == page_request::stage::completed;
  }
  void recycle(page_request &request) noexcept;  // requires is_complete()
  // Reports the bytes in DRAM of swapped-out ranks' pages, before they grow. Returns the bytes that
  // they may use now.
  uint64_t update_cache_size(uint64_t bytes) noexcept;
  // Until a request is posted or a decision needs the agent; returns at once if that happened since
  // the last sleep.
  void sleep_agent(uint64_t timeout_ns) noexcept;
  void wake_agent() noexcept;
  // Copies changes of states that were not yet taken, oldest first.
  size_t take_events(std::span<state_event> events);

  // Records a failure and ends all waits. Only the first text is kept; it is one line.
  void fail(const char *text) noexcept;
  const char *failure() const noexcept;  // null: no failure
  // After a failure: returns `peer_lost`, with the failure's text as the message, for a caller that
  // ends the job. It returns at once in one process. In the others it returns only after a time in
  // which that process should have ended them, so that the failure is printed once.
  status report_failure() noexcept;

  rank_state state(uint32_t rank) const noexcept;
  // Takes no lock: the numbers may be of different moments.
  rank_view snapshot(uint32_t rank) const noexcept;
  int32_t process_id_of(uint32_t rank) const noexcept;
  // The rank's number in the whole job, for texts. It is the index itself, unless it was set before
  // others attached.
  int32_t job_rank_of(uint32_t rank) const noexcept;
  void set_job_rank(uint32_t rank, int32_t job_rank) noexcept;
  node_counters &counters() noexcept;
  const node_counters &counters() const noexcept;
  seams::clock &time() const noexcept {
    return *time_;
  }

  // Sleeps until the rank's state changes, or one of its requests is answered. Returns at once if
  // that happened since the last sleep.
  void sleep(uint32_t rank, uint64_t timeout_ns) noexcept;
  void wake(uint32_t rank) noexcept;

 private:
  struct layout;
  struct rank_entry;
  class guard;
  friend struct node_table_testing;

  rank_entry &entry_for(uint32_t rank) const noexcept;
  page_request *requests_from(uint32_t origin) const noexcept;
  void wake_origin(uint32_t origin) noexcept;
  // The caller holds the lock.
  void set_state(uint32_t rank, rank_state next) noexcept;
  enum class caller { rank, agent };
  void apply_decisions(caller requester = caller::rank) noexcept;
  bool apply_once(caller requester) noexcept;
  void apply_states(const decision &plan) noexcept;
  void grant_reservation(uint32_t rank) noexcept;
  uint64_t residency_slice_ns() const noexcept;
  void warn_beyond_budget() noexcept;
  node_view make_view() noexcept;

  layout *layout_;
  seams::clock *time_;
  seams::alarm *alarm_;
};

}  // namespace tanada::onesided::swap
