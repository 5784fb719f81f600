// cub/warp/warp_reduce.cuh: reductions of a warp, or of parts with `LogicalWarpThreads` lanes each,
// for the host executor. The first lane gets the result.
#pragma once

#include "../reduce_operators.h"

namespace cub {

template <class T, int LogicalWarpThreads = 32>
class WarpReduce {
 public:
  static_assert(LogicalWarpThreads > 0 && LogicalWarpThreads <= 32, "at most a warp");

  struct TempStorage {
    alignas(T) unsigned char bytes[sizeof(T) * LogicalWarpThreads];
  };

  explicit WarpReduce(TempStorage &storage) : values_{reinterpret_cast<T *>(storage.bytes)} {}

  template <class Op>
  T Reduce(T input, Op op) {
    return Reduce(input, op, LogicalWarpThreads);
  }
  template <class Op>
  T Reduce(T input, Op op, int valid_count) {
    int const warp_lane = int(::tanada::simt::lane_index()), lane = warp_lane % LogicalWarpThreads;
    values_[lane] = input;
    __syncwarp(mask(warp_lane - lane));
    return lane == 0 ? detail_::reduce_values(values_, valid_count, op) : input;
  }

  T Sum(T input) {
    return Reduce(input, ::cub::Sum{});
  }
  T Sum(T input, int valid_count) {
    return Reduce(input, ::cub::Sum{}, valid_count);
  }

 private:
  static unsigned mask(int first_lane) {
    return (~0u >> (32 - LogicalWarpThreads)) << first_lane;
  }

  T *values_;
};

}  // namespace cub
