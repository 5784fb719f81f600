// products/pool/erasure_codec.hpp: parity fragments and lost fragments of an erasure code (ISA-L).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/wire/pool_erasure.hpp"

namespace tanada::pool {

/**
 * A Cauchy Reed-Solomon code: any K of the K + M fragments of a group give the others.
 *
 * Fragments may be shorter than `size`, which means zeros at their ends.
 *
 * **Thread safety** All calls, by any thread.
 */
class erasure_codec {
 public:
  using fragment = std::span<const std::byte>;

  // Requires a valid scheme that is on.
  explicit erasure_codec(const wire::pool::erasure_scheme &scheme);

  // Computes parity fragment `index` (0 to M - 1) from the K data fragments.
  void encode(std::span<const fragment> data, uint32_t index, std::span<std::byte> parity) const;

  // A fragment that is there, by its place in the group (0 to K + M - 1).
  struct source {
    uint32_t place = 0;
    fragment bytes = {};
  };
  // Computes the fragment of a place from K others with different places. False: these are not K
  // different places.
  bool rebuild(std::span<const source> sources, uint32_t place, std::span<std::byte> target) const;

 private:
  // The target is the sum of the sources, each multiplied by its coefficient.
  static void combine(std::span<const uint8_t> coefficients,
                      std::span<const fragment> sources,
                      std::span<std::byte> target);

  wire::pool::erasure_scheme const scheme_;
  std::vector<uint8_t> matrix_;  // K columns, K + M rows: each fragment as a sum of data fragments
};

}  // namespace tanada::pool
