// onesided/swap/state.hpp: what a process and its memory are doing. The names are those of
// Matsumiya and Endo, "PGAS runtime with multi-tier memory including flash SSD", section 3.2 and
// figure 4.
#pragma once

#include <cstdint>

namespace tanada::comex::swap {

// Memory is in DRAM from ready to swap_out_wait, elsewhere from swapped to swap_in_wait, and on its
// way in swap_out and swap_in.
enum class rank_state : uint8_t {
  ready,    // nothing is waited for but a slot to run in; so at first
  running,  // in a slot
  wait,  // for something that others do; or its wait is over, and there is no room for what it may
         // touch
  swap_out_wait,  // chosen to leave: it says what it has written, then one of those that move
  swap_out,       // on the way out: only done() ends it
  swapped,        // out, and waiting
  swap_in_wait,   // out, and its wait is over
  swap_in,        // on the way in
  gone,           // no longer taken care of; its memory stays where it is
};
inline constexpr uint32_t rank_state_count = 9;

// What may happen to the memory of who waits.
enum class wait_kind : uint8_t {
  others,  // it may leave
  held,    // it stays: somebody else has addresses in it, such as MPI buffers of messages
  served,  // it stays: pages of others are coming, soon
};

const char *name_of(rank_state of) noexcept;  // as in the paper: "Running"
bool may_follow(rank_state from, rank_state to) noexcept;
constexpr bool is_away(rank_state of) noexcept {
  return of == rank_state::swapped || of == rank_state::swap_in_wait;
}

}  // namespace tanada::comex::swap
