// onesided/swap/scheduler.hpp: who runs, whose memory leaves and whose comes, as a function of what
// is known of a node.
#pragma once

#include <array>
#include <span>

#include "onesided/swap/state.hpp"

namespace tanada::comex::swap {

// Sizes are bytes, times those of one clock.
struct rank_view {
  rank_state state = rank_state::gone;
  wait_kind kind = wait_kind::others;
  bool wants = false;        // its wait is over, or it is for room
  bool is_prepared = false;  // swap_out_wait: what it has written is known
  bool is_pinned =
      false;  // others touch it, or have pages of it: it could not leave before they are done
  uint64_t here = 0;       // in DRAM, as far as the scheduler is to count it
  uint64_t away = 0;       // elsewhere alone
  uint64_t allocated = 0;  // what it may touch as soon as it runs
  uint64_t reserve = 0;    // waits for so much more
  uint64_t since_ns = 0;   // running: it runs; wants: its wait is over; else: it waits
  // Its memory was let in then; waits since then do not change it, because a rank that polls waits
  // all the time.
  uint64_t let_in_ns = ~uint64_t{0};
};

struct node_view {
  static constexpr uint32_t rank_count_max = 1024;

  std::span<const rank_view> ranks;
  uint64_t budget = 0;
  uint64_t cached =
      0;  // pages of ranks that are away, in DRAM for others; beyond what the cache may always have
  uint32_t slots = 1;      // ranks that run at a time
  uint32_t moves_max = 2;  // ranks that move at a time, each way
  uint64_t now_ns = 0;
  uint64_t patience_ns = 0;  // younger waits do not make a rank leave while anybody runs
  uint64_t slice_ns = 0;     // who runs for longer while others want its slot is asked to make way
  uint64_t silence_ns = ~uint64_t{0};  // who runs for longer has not answered: it may wait where
                                       // nobody sees it, and another takes its slot
  uint64_t room_slice_ns =
      0;  // a rank let in longer ago makes way, while others lack room, at its next call or wait
  uint64_t stuck_ns =
      0;  // who waits for so long where nothing can happen is let in beyond the budget
};

// What is to be done at once, ranks by index. Each list holds some of them at least: who has done
// all of it asks again.
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

  list admit;                     // wait or swap_out_wait becomes ready, with what it reserves
  list run;                       // ready becomes running
  list leave;                     // wait becomes swap_out_wait
  list out;                       // swap_out_wait becomes swap_out
  list come;                      // swap_in_wait becomes swap_in, with what it reserves
  list ask;                       // running: to make way at the next occasion
  uint64_t cache_surplus = 0;     // bytes of the cache that others need
  bool is_beyond_budget = false;  // admit or come goes beyond it: else nothing would ever happen

  // States change by it.
  bool is_empty() const noexcept {
    return admit.count + run.count + leave.count + out.count + come.count == 0;
  }
};

// Pure: equal views give equal decisions.
decision decide(const node_view &of) noexcept;

// Bytes that the budget is charged for a rank: all that may be touched of it, by itself or others,
// unless it is away.
uint64_t charge_of(const rank_view &of, uint64_t budget) noexcept;

}  // namespace tanada::comex::swap
