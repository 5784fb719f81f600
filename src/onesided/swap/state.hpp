// onesided/swap/state.hpp: states of a process and of its memory. The names are those of Matsumiya
// and Endo, "PGAS runtime with multi-tier memory including flash SSD", section 3.2 and figure 4.
#pragma once

#include <cstdint>

namespace tanada::onesided::swap {

// The memory is in DRAM in the states `ready` to `swap_out_wait`, and in the store in `swapped` and
// `swap_in_wait`. In `swap_out` and `swap_in` it is being moved.
enum class rank_state : uint8_t {
  ready,    // waits only for a slot to run in; the first state after the start
  running,  // occupies a slot
  // Waits for other processes, or its wait is over and DRAM for what it may touch is not available.
  wait,
  // Chosen for swapping out: the process reports which pages it wrote, then a move begins.
  swap_out_wait,
  swap_out,      // being swapped out; ends only when the agent calls complete_move()
  swapped,       // swapped out, and waiting
  swap_in_wait,  // swapped out, and its wait is over
  swap_in,       // being swapped in
  inactive,      // not scheduled, before the start and after the end; the memory stays where it is
};
inline constexpr uint32_t rank_state_count = 9;

// Whether the memory of a waiting process may be swapped out.
enum class wait_kind : uint8_t {
  swappable,  // may be swapped out
  pinned,     // must stay: others hold addresses in it, such as buffers of MPI messages
  for_pages,  // must stay: the process waits for pages of others, which arrive soon
};

const char *name_of(rank_state state) noexcept;  // as in the paper: "Running"
bool may_follow(rank_state current, rank_state next) noexcept;
constexpr bool is_swapped_out(rank_state state) noexcept {
  return state == rank_state::swapped || state == rank_state::swap_in_wait;
}

}  // namespace tanada::onesided::swap
