// products/comex/armci/combine.hpp: the operations of reductions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tanada::comex::armci {

enum class operation : uint8_t { sum, product, max, min, logical_and, logical_or, bit_and, bit_or };

// Elements lie anywhere; the ranges do not overlap.
using combine_run = void (*)(std::byte *into, const std::byte *from, size_t count) noexcept;

struct combination {
  combine_run run;         // into[i] = into[i] OP from[i]
  combine_run run_behind;  // into[i] = from[i] OP into[i]
  size_t element_size;     // bytes
  uint32_t id;             // another for another operation or type
};

// `type`: ARMCI_INT and so on. Integers wrap; logical and bitwise operations are of integers.
combination combination_of(operation what, int type) noexcept;

}  // namespace tanada::comex::armci
