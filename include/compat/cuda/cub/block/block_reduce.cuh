// cub/block/block_reduce.cuh: reductions of a block, for the host executor. The first thread gets
// the result; values are combined in the order of the threads.
#pragma once

#include "../reduce_operators.h"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS
};

template <class T,
          int BlockDimX,
          BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS,
          int BlockDimY = 1,
          int BlockDimZ = 1>
class BlockReduce {
 public:
  static constexpr int thread_count = BlockDimX * BlockDimY * BlockDimZ;

  struct TempStorage {
    alignas(T) unsigned char bytes[sizeof(T) * thread_count];
  };

  explicit BlockReduce(TempStorage &storage) : values_{reinterpret_cast<T *>(storage.bytes)} {}

  template <class Op>
  T Reduce(T input, Op op) {
    return Reduce(input, op, thread_count);
  }
  template <class Op>
  T Reduce(T input, Op op, int valid_count) {
    int const thread = int(::tanada::simt::thread_rank_in_block());
    values_[thread] = input;
    __syncthreads();
    return thread == 0 ? detail_::reduce_values(values_, valid_count, op) : input;
  }
  template <int Count, class Op>
  T Reduce(T (&inputs)[Count], Op op) {
    return Reduce(detail_::reduce_items(inputs, op), op);
  }

  T Sum(T input) {
    return Reduce(input, ::cub::Sum{});
  }
  T Sum(T input, int valid_count) {
    return Reduce(input, ::cub::Sum{}, valid_count);
  }
  template <int Count>
  T Sum(T (&inputs)[Count]) {
    return Reduce(inputs, ::cub::Sum{});
  }

 private:
  T *values_;
};

}  // namespace cub
