#include "onesided/swap/state.hpp"

#include <array>
#include <cstddef>

namespace tanada::comex::swap {

using enum rank_state;

namespace {

constexpr uint32_t bit(rank_state of) {
  return 1u << uint32_t(of);
}

// What may follow, by state; all may be gone.
constexpr auto followers = [] {
  std::array<uint32_t, rank_state_count> all{};
  auto const at = [&](rank_state from) -> uint32_t & {
    return all[std::size_t(from)];
  };
  at(ready) = bit(running);
  at(running) = bit(wait);
  at(wait) = bit(ready) | bit(swap_out_wait);
  at(swap_out_wait) = bit(ready) | bit(swap_out);
  at(swap_out) = bit(swapped);
  at(swapped) = bit(swap_in_wait);
  at(swap_in_wait) = bit(swap_in);
  at(swap_in) = bit(ready);
  for (auto &each : all)
    each |= bit(gone);
  at(gone) = bit(ready);
  return all;
}();

}  // namespace

const char *name_of(rank_state of) noexcept {
  switch (of) {
    case ready: return "Ready";
    case running: return "Running";
    case wait: return "Wait";
    case swap_out_wait: return "SwapOutWait";
    case swap_out: return "SwapOut";
    case swapped: return "Swapped";
    case swap_in_wait: return "SwapInWait";
    case swap_in: return "SwapIn";
    case gone: return "gone";
  }
  return "unknown";
}

bool may_follow(rank_state from, rank_state to) noexcept {
  return (followers[std::size_t(from)] & bit(to)) != 0;
}

}  // namespace tanada::comex::swap
