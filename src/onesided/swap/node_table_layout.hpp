// onesided/swap/node_table_layout.hpp: the layout of the node table's shared memory.
#pragma once

#include <pthread.h>

#include "onesided/swap/node_table.hpp"

namespace tanada::onesided::swap {

// The state of one rank. It changes under the lock, except for the gate, the values that only the
// rank itself sets, and alarms. It may be read without the lock where no decision depends on it.
struct alignas(64) node_table::rank_entry {
  static constexpr uint32_t closed = 1u << 31;

  std::atomic<uint32_t> gate;  // the number of pins, and the bit `closed`

  alignas(64) std::atomic<rank_state> state;
  std::atomic<wait_kind> kind;
  std::atomic<bool> wants_to_run, is_prepared;
  std::atomic<bool> is_move_taken;  // the agent has received its move
  std::atomic<bool> is_swapped_in;
  std::atomic<bool> has_left_out;  // changes while the gate is closed
  std::atomic<bool> is_yield_requested;
  std::atomic<int32_t> process_id, job_rank;
  std::atomic<uint64_t> resident_size, swapped_size, allocated, reserve, since_ns, admitted_ns;

  std::atomic<bool> was_woken;  // woken since the last sleep
  seams::shared_alarm alarm;
};

struct node_table::layout {
  static constexpr uint32_t event_capacity = 4096;
  static constexpr size_t failure_size = 512;

  node_table_options options;
  pthread_mutex_t lock;
  std::atomic<uint32_t> failure_state;    // 0; 1 while the text is being written; 2
  std::atomic<bool> is_failure_reported;  // a process is about to end the job
  char failure[failure_size];
  node_counters counters;
  seams::shared_alarm agent_alarm;
  std::atomic<uint64_t> reserved;                  // bytes of the budget
  std::atomic<bool> was_agent_woken;               // the agent was woken since it last polled
  alignas(64) std::atomic<uint32_t> posted_count;  // requests that the agent has not seen
  // Guarded by the lock.
  uint64_t cached_size, cache_surplus;
  uint32_t next_origin;    // an origin; only the agent uses it
  uint64_t copies_offset;  // set once
  bool has_warned;
  uint64_t events_written, events_taken;
  state_event events[event_capacity];

  // Of the pages that copies lie in, where the creator of the table has large pages.
  static constexpr size_t large_page = size_t{2} << 20;

  static_assert(sizeof(rank_entry) % 64 == 0, "requests follow the entries, and are aligned");
  static_assert(alignof(rank_view) <= alignof(page_request), "the views follow the requests");
  static_assert(std::atomic<rank_state>::is_always_lock_free &&
                std::atomic<wait_kind>::is_always_lock_free &&
                std::atomic<uint64_t>::is_always_lock_free);

  static constexpr size_t align(size_t size) noexcept {
    return (size + 63) / 64 * 64;
  }
  static constexpr size_t entries_offset() noexcept {
    return align(sizeof(layout));
  }
  static constexpr size_t requests_offset(uint32_t rank_count) noexcept {
    return entries_offset() + rank_count * sizeof(rank_entry);
  }
  static constexpr size_t views_offset(uint32_t rank_count, bool has_remote_origins) noexcept {
    return requests_offset(rank_count) + size_t{rank_count} * (has_remote_origins ? 2 : 1) *
                                             requests_per_origin * sizeof(page_request);
  }

  template <class T>
  T *object_at(size_t offset) noexcept {
    return reinterpret_cast<T *>(reinterpret_cast<std::byte *>(this) + offset);
  }
  // Scratch memory for decide().
  rank_view *views() noexcept {
    return object_at<rank_view>(views_offset(options.rank_count, options.has_remote_origins));
  }
};

// Locks the table. If a process died while it held the lock, the next owner recovers the lock. The
// table's contents cannot be relied on, so the table fails.
class node_table::guard {
 public:
  explicit guard(node_table &table) noexcept;
  ~guard();
  guard(const guard &) = delete;
  guard &operator=(const guard &) = delete;

 private:
  pthread_mutex_t *lock_;
};

}  // namespace tanada::onesided::swap
