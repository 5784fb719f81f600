// cooperative_groups.h: blocks, tiles of a warp and the grid, for the host executor.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

class thread_block {
 public:
  static unsigned thread_rank() {
    return ::tanada::simt::thread_rank_in_block();
  }
  static unsigned size() {
    return ::tanada::simt::block_thread_count();
  }
  static unsigned num_threads() {
    return size();
  }
  static dim3 group_index() {
    return ::tanada::simt::host::ids().block;
  }
  static dim3 thread_index() {
    return ::tanada::simt::host::ids().thread;
  }
  static dim3 group_dim() {
    return ::tanada::simt::host::ids().block_size;
  }
  static void sync() {
    __syncthreads();
  }
};
inline thread_block this_thread_block() {
  return {};
}

// `Size` lanes of a warp.
template <unsigned Size>
class thread_block_tile {
 public:
  static unsigned thread_rank() {
    return ::tanada::simt::lane_index() % Size;
  }
  static constexpr unsigned size() {
    return Size;
  }
  static constexpr unsigned num_threads() {
    return Size;
  }
  static unsigned meta_group_rank() {
    return thread_block::thread_rank() / Size;
  }
  static unsigned meta_group_size() {
    return (thread_block::size() + Size - 1) / Size;
  }
  static void sync() {
    __syncwarp(mask());
  }
  template <class T>
  T shfl(T value, int lane) const {
    return __shfl_sync(mask(), value, lane, Size);
  }
  template <class T>
  T shfl_up(T value, unsigned delta) const {
    return __shfl_up_sync(mask(), value, delta, Size);
  }
  template <class T>
  T shfl_down(T value, unsigned delta) const {
    return __shfl_down_sync(mask(), value, delta, Size);
  }
  template <class T>
  T shfl_xor(T value, int lane_mask) const {
    return __shfl_xor_sync(mask(), value, lane_mask, Size);
  }
  int any(int vote) const {
    return __any_sync(mask(), vote);
  }
  int all(int vote) const {
    return __all_sync(mask(), vote);
  }

 private:
  static unsigned mask() {
    unsigned const lanes = Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1;
    return lanes << ::tanada::simt::lane_index() / Size * Size;
  }
};
template <unsigned Size>
inline thread_block_tile<Size> tiled_partition(const thread_block &) {
  return {};
}

// All blocks of a cooperative launch.
class grid_group {
 public:
  static unsigned long long thread_rank() {
    return ::tanada::simt::global_thread_rank();
  }
  static unsigned long long size() {
    return block_count() * thread_block::size();
  }
  static unsigned long long num_threads() {
    return size();
  }
  static bool is_valid() {
    return true;
  }
  static void sync() {
    __syncthreads();
    if (thread_block::thread_rank() == 0) {
      ::tanada::cuda::grid_state &grid = *::tanada::cuda::current_grid;
      unsigned const generation = __atomic_load_n(&grid.generation, __ATOMIC_ACQUIRE);
      if (__atomic_add_fetch(&grid.arrived, 1, __ATOMIC_ACQ_REL) == block_count()) {
        __atomic_store_n(&grid.arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&grid.generation, generation + 1, __ATOMIC_RELEASE);
      }
      while (__atomic_load_n(&grid.generation, __ATOMIC_ACQUIRE) == generation)
        ::tanada::simt::host::pause();
    }
    __syncthreads();
  }

 private:
  static unsigned long long block_count() {
    dim3 const &grid = ::tanada::simt::host::ids().grid_size;
    return static_cast<unsigned long long>(grid.x) * grid.y * grid.z;
  }
};
inline grid_group this_grid() {
  return {};
}

template <class Group>
inline void sync(const Group &group) {
  group.sync();
}

}  // namespace cooperative_groups
