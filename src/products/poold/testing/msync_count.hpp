// products/poold/testing/msync_count.hpp: how often this program has called msync().
#pragma once

#include <cstdint>

namespace tanada::poold {

extern uint64_t msync_count;  // pool_memory_test.cc

}  // namespace tanada::poold
