// products/pool/name_counters.hpp: the counters of a namespace that the daemon shares, read-only,
// with clients on its node, in addition to objects' bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tanada::pool {

// Counters of changes, each for many names. A counter rises after one of its names has come to
// refer to another object. A client may read the counter and then open an object. While the counter
// stays the same, the name still refers to that object.
struct name_counters {
  static constexpr size_t count = 4096;
  std::atomic<uint64_t> values[count];

  static size_t index(std::string_view name) noexcept {
    uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
    for (char const c : name)
      hash = (hash ^ uint8_t(c)) * 0x100000001B3u;
    return size_t((hash ^ hash >> 32) % count);
  }
};
static_assert(sizeof(name_counters) == 32768 && std::atomic<uint64_t>::is_always_lock_free);

}  // namespace tanada::pool
