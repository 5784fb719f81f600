// Legal transitions between the states of a process, and the states' names.
#include "onesided/swap/state.hpp"

#include <array>
#include <cstddef>

namespace tanada::onesided::swap {

using enum rank_state;

static_assert(uint32_t(inactive) + 1 == rank_state_count);

namespace {

constexpr uint32_t bit(rank_state state) {
  return 1u << uint32_t(state);
}

// The states that may follow each state. Every state may become `inactive`.
constexpr auto legal_successors = [] {
  std::array<uint32_t, rank_state_count> table{};
  auto const successors_of = [&](rank_state state) -> uint32_t & {
    return table[std::size_t(state)];
  };
  successors_of(ready) = bit(running);
  successors_of(running) = bit(wait);
  successors_of(wait) = bit(ready) | bit(swap_out_wait);
  successors_of(swap_out_wait) = bit(ready) | bit(swap_out);
  successors_of(swap_out) = bit(swapped);
  successors_of(swapped) = bit(swap_in_wait);
  successors_of(swap_in_wait) = bit(swap_in);
  successors_of(swap_in) = bit(ready);
  for (auto &successors : table)
    successors |= bit(inactive);
  successors_of(inactive) = bit(ready);
  return table;
}();
static_assert(rank_state_count <= 32, "a state is a bit of a word");

}  // namespace

const char *name_of(rank_state state) noexcept {
  switch (state) {
    case ready:
      return "Ready";
    case running:
      return "Running";
    case wait:
      return "Wait";
    case swap_out_wait:
      return "SwapOutWait";
    case swap_out:
      return "SwapOut";
    case swapped:
      return "Swapped";
    case swap_in_wait:
      return "SwapInWait";
    case swap_in:
      return "SwapIn";
    case inactive:
      return "gone";
  }
  return "unknown";
}

bool may_follow(rank_state current, rank_state next) noexcept {
  return (legal_successors[std::size_t(current)] & bit(next)) != 0;
}

}  // namespace tanada::onesided::swap
