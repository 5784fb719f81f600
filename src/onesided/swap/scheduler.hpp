// onesided/swap/scheduler.hpp: the scheduling of a node's ranks. A pure function of the node's
// state decides which ranks run, and which are swapped out and in.
#pragma once

#include <array>
#include <span>

#include "onesided/swap/state.hpp"

namespace tanada::onesided::swap {

// The state of a rank. Sizes are in bytes, and all times are of one clock.
struct rank_view {
  rank_state state = rank_state::inactive;
  wait_kind kind = wait_kind::swappable;
  bool wants_to_run = false;  // its wait is over, or it waits for a reservation
  bool is_prepared = false;   // in `swap_out_wait`: the written pages are known
  bool is_pinned =
      false;  // others access it or its pages, so that it cannot be swapped out until they are done
  uint64_t resident_size = 0;  // in DRAM, as far as the scheduler counts it
  uint64_t swapped_size = 0;   // only in the store
  uint64_t allocated = 0;      // what it may touch as soon as it runs
  uint64_t reserve = 0;        // further bytes that it waits for
  // Start of the current run; with wants_to_run: the end of its wait; otherwise: the start of its
  // wait.
  uint64_t since_ns = 0;
  // The time at which its memory was admitted. Later waits do not change it, because a polling rank
  // waits all the time.
  uint64_t admitted_ns = ~uint64_t{0};
};

struct node_view {
  static constexpr uint32_t rank_count_max = 1024;

  std::span<const rank_view> ranks;
  uint64_t budget = 0;
  // Bytes of swapped-out ranks' pages in DRAM, beyond the part that the cache may always use.
  uint64_t cached_size = 0;
  uint32_t slots = 1;      // ranks that run at a time
  uint32_t moves_max = 2;  // ranks that move at a time, in each direction
  uint64_t now_ns = 0;
  // While any rank runs, a rank that has waited for a shorter time is not swapped out.
  uint64_t swap_out_delay_ns = 0;
  // A rank that has run for longer while others need its slot receives a yield request.
  uint64_t slice_ns = 0;
  // A rank that has run for longer is unresponsive: it may be waiting unseen, so another rank gets
  // its slot.
  uint64_t unresponsive_ns = ~uint64_t{0};
  uint64_t residency_slice_ns =
      0;  // a rank admitted longer ago yields at its next call or wait, while others lack DRAM
  // A rank that has waited for so long while nothing can happen is admitted beyond the budget.
  uint64_t stall_timeout_ns = 0;
};

// What is to be done at once, as indices of ranks. A list may be incomplete: after carrying it out,
// the caller decides again.
struct decision {
  struct list {
    static constexpr uint32_t capacity = 32;
    std::array<uint32_t, capacity> ranks{};
    uint32_t count = 0;

    void add(uint32_t rank) noexcept {
      if (count < capacity)
        ranks[count++] = rank;
    }
    const uint32_t *begin() const noexcept {
      return ranks.data();
    }
    const uint32_t *end() const noexcept {
      return ranks.data() + count;
    }
  };

  list admit;     // `wait` or `swap_out_wait` becomes `ready`, and the reservation is granted
  list run;       // `ready` becomes `running`
  list prepare;   // `wait` becomes `swap_out_wait`
  list move_out;  // `swap_out_wait` becomes `swap_out`
  list move_in;   // `swap_in_wait` becomes `swap_in`, and the reservation is granted
  list yield;     // running ranks that are to yield at the next opportunity
  uint64_t cache_surplus = 0;  // bytes of the cache that ranks need
  // `admit` or `move_in` exceeds the budget, because nothing could happen otherwise
  bool is_beyond_budget = false;

  // Whether no state changes.
  bool is_empty() const noexcept {
    return admit.count + run.count + prepare.count + move_out.count + move_in.count == 0;
  }
};

// A pure function: equal views give equal decisions.
decision decide(const node_view &node) noexcept;

// Bytes of the budget that a rank is charged: all of its memory that it or others may touch. A
// swapped-out rank is charged nothing.
uint64_t charge_of(const rank_view &rank, uint64_t budget) noexcept;

}  // namespace tanada::onesided::swap
