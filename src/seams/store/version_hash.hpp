// seams/store/version_hash.hpp: a file's version, computed from the metadata of its file system.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tanada::seams {

// 64 bits over all words, in their order: splitmix64's finisher, chained.
inline uint64_t version_hash(std::initializer_list<uint64_t> words) noexcept {
  uint64_t hash = 0;
  for (uint64_t const word : words) {
    uint64_t z = hash * 0x9E3779B97F4A7C15u + word;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    hash = z ^ (z >> 31);
  }
  return hash;
}

}  // namespace tanada::seams
