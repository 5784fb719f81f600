// products/poold/testing/sizes.hpp: sizes that unit tests of the daemon are written in.
#pragma once

#include <cstdint>

namespace tanada::poold {

inline constexpr uint64_t mib = 1 << 20;

}  // namespace tanada::poold
