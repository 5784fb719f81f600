// examples/common/halo.hpp: shared parts of programs whose PEs exchange edges in every step.
#pragma once

#include <shmem.h>
#include <shmemg.h>

#include <stdexcept>

#include "device_memory.hpp"

namespace examples {

/// Symmetric memory of devices, zeroed. The PE's shmem_finalize frees it.
template <class T>
T *device_symmetric(tanada::u64 count) {
  void *const made = shmemg_calloc(count, sizeof(T));
  if (made == nullptr)
    throw std::runtime_error("the device heap is too small: set SHMEM_DEVICE_SYMMETRIC_SIZE");
  return static_cast<T *>(made);
}
template <class T>
T *host_symmetric(tanada::u64 count) {
  void *const made = shmem_calloc(count, sizeof(T));
  if (made == nullptr)
    throw std::runtime_error("the symmetric heap is too small: set SHMEM_SYMMETRIC_SIZE");
  return static_cast<T *>(made);
}

/// Returns true in all threads of the last of `count` blocks to arrive. All stores of the other
/// blocks, to this PE's or another PE's memory, are then ordered before later stores of this block.
/// `arrived`: device memory, 0 between kernels.
TND_DEVICE inline bool is_last_block(tanada::u32 *arrived, tanada::u32 count) {
  tanada::this_block const all;
  TND_SHARED(tanada::u32, is_last);
  tanada::simt::fence_system();
  all.sync();
  if (all.rank() == 0) {
    is_last = tanada::simt::device_atomic<tanada::u32>(*arrived).fetch_add_acq_rel(1) + 1 == count
                  ? 1
                  : 0;
    if (is_last != 0)
      tanada::simt::device_atomic<tanada::u32>(*arrived).store_relaxed(0);
  }
  all.sync();
  bool const last = is_last != 0;
  if (last)
    tanada::simt::fence_system();
  return last;
}

}  // namespace examples
