// examples/common/halo.hpp: what programs whose PEs pass edges on in every step have in common.
#pragma once

#include <shmem.h>
#include <shmemg.h>

#include <stdexcept>

#include "device_memory.hpp"

namespace examples {

/// Symmetric memory of devices, zeros; freed by the PE's shmem_finalize.
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

/// True in all threads of the block that comes last of `count` blocks, and then what any of them
/// stored before, here or in memory of another PE, is stored before what this block stores next.
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
