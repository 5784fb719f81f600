// sim/stream.hpp: port::stream in a world: bytes in memory, with faults.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "seams/stream/stream.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// What goes wrong, and how often. Bytes come in order and as they were, or the connection ends:
// that is what TCP promises.
struct stream_faults {
  uint32_t again_percent = 0;         // a call that could move bytes says again
  uint64_t chunk_size_max = 1 << 20;  // bytes that a call moves
  uint64_t window_size = 1 << 16;     // bytes on the way in one direction
  uint32_t cut_permyriad = 0;         // a call ends the connection, and what is on the way is lost
};

// Two ends of a connection. A wait calls `pump`, which lets the rest of the simulation do
// something, until what is waited for has come; it is timed_out, at once, when pump says that
// nothing is left to happen. The world outlives both.
std::pair<std::unique_ptr<port::stream>, std::unique_ptr<port::stream>> stream_pair_create(
    world &owner, const stream_faults &faults, std::function<bool()> pump);

}  // namespace tanada::sim
