// products/pool/client/box.hpp: rows of a box of an object's bytes.
#pragma once

#include <tanada/pool.h>

#include <algorithm>

#include "core/base/checked.hpp"
#include "core/base/result.hpp"
#include "core/wire/pool.hpp"

namespace tanada::pool {

inline tnd_pool_box row_box(uint64_t offset, uint64_t size) {
  return {
      .offset = offset, .size = size, .count = {1, 1}, .object_stride = {}, .memory_stride = {}};
}

// The end of a box in the object, or `overflow`.
inline result<uint64_t> end_of(const tnd_pool_box &box) {
  if (box.count[0] == 0 || box.count[1] == 0 || box.size == 0)
    return uint64_t{0};
  uint64_t end = box.offset, step = 0;
  for (int i = 0; i < 2; i++) {
    if (!checked_multiply(box.count[i] - 1, box.object_stride[i], step) ||
        !checked_add(end, step, end))
      return status::overflow;
  }
  if (!checked_add(end, box.size, end) || end > wire::pool::object_size_max)
    return status::overflow;
  return end;
}

// Merges rows that are adjacent on both sides.
inline tnd_pool_box joined(tnd_pool_box box) {
  if (box.count[0] > 1 && box.object_stride[0] == box.size && box.memory_stride[0] == box.size) {
    box.size *= box.count[0];
    box.count[0] = 1;
  }
  bool const planes = box.count[0] == 1 && box.count[1] > 1 && box.object_stride[1] == box.size &&
                      box.memory_stride[1] == box.size;
  if (planes) {
    box.size *= box.count[1];
    box.count[1] = 1;
  }
  return box;
}

// Calls `row` with each row's offset in the object and in memory, until it fails.
template <class Row>
status each_row(const tnd_pool_box &box, Row row) {
  for (uint64_t outer = 0; outer < box.count[1]; outer++) {
    for (uint64_t inner = 0; inner < box.count[0]; inner++) {
      TND_TRY(row(box.offset + outer * box.object_stride[1] + inner * box.object_stride[0],
                  outer * box.memory_stride[1] + inner * box.memory_stride[0]));
    }
  }
  return status::ok;
}

}  // namespace tanada::pool
