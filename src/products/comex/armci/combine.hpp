// products/comex/armci/combine.hpp: the operations of reductions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tanada::comex::armci {

enum class operation : uint8_t { sum, product, max, min, logical_and, logical_or, bit_and, bit_or };

// No alignment is required; the ranges must not overlap.
using combine_run = void (*)(std::byte *target, const std::byte *source, size_t count) noexcept;

struct reduction {
  combine_run run;           // target[i] = target[i] OP source[i]
  combine_run run_reversed;  // target[i] = source[i] OP target[i]
  size_t element_size;       // bytes
  uint32_t id;               // unique for each operation and type
};

// `type` is ARMCI_INT and so on. Integers wrap around; logical and bitwise operations exist only
// for integers.
reduction reduction_for(operation op, int type) noexcept;

}  // namespace tanada::comex::armci
