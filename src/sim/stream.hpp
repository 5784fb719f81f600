// sim/stream.hpp: seams::stream in a world: bytes in memory, with faults.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "seams/stream/stream.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// Kinds of faults and their frequency. As TCP guarantees, bytes arrive in order and unchanged, or
// the connection ends.
struct stream_faults {
  uint32_t again_percent = 0;         // calls that return `again` although they could move bytes
  uint64_t chunk_size_max = 1 << 20;  // largest number of bytes that a call moves
  uint64_t window_size = 1 << 16;     // bytes in flight in one direction
  uint32_t cut_permyriad = 0;         // calls that end the connection and lose the bytes in flight
};

// The two ends of a connection. A wait calls `pump`, which advances the rest of the simulation,
// until the awaited condition holds. It returns timed_out at once when `pump` returns false,
// because nothing is scheduled. The world outlives both ends.
std::pair<std::unique_ptr<seams::stream>, std::unique_ptr<seams::stream>> stream_pair_create(
    world &owner, const stream_faults &faults, std::function<bool()> pump);

}  // namespace tanada::sim
