// products/pool/shared.hpp: what the daemon shows of a namespace to the clients on its node,
// read-only, beside objects' bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tanada::pool {

// One counter for every so many names. It rises, after the fact, whenever one of them means another
// object than before: a client that has an object open, and has read the counter before it opened
// it, knows that the name still means that object while the counter stays.
struct name_counters {
  static constexpr size_t count = 4096;
  std::atomic<uint64_t> of[count];

  static size_t index(std::string_view name) noexcept {
    uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
    for (char const one : name)
      hash = (hash ^ uint8_t(one)) * 0x100000001B3u;
    return size_t((hash ^ hash >> 32) % count);
  }
};
static_assert(sizeof(name_counters) == 32768 && std::atomic<uint64_t>::is_always_lock_free);

}  // namespace tanada::pool
