// pgas/pacing.hpp: how whoever waits for an endpoint goes on without news: looking at once, then letting others run, then asleep. The other
// end may need this processor.
#pragma once

#include <cstdint>

namespace tanada::pgas {

inline constexpr uint32_t looks_roomy = 32, looks_crowded = 2;
inline constexpr uint64_t yield_ns_roomy = 2'000'000, yield_ns_crowded = 20'000;
// Of a sleep. What this PE owes others is looked after in between; by and by the thread that answers takes over.
inline constexpr uint64_t sleep_ns_first = 50'000, sleep_ns_last = 1'000'000;
inline constexpr uint32_t clock_rounds = 64;  // between two looks at the clock

}  // namespace tanada::pgas
