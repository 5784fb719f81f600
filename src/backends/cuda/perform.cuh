// backends/cuda/perform.cuh: what a command asks for, by threads of the device.
#pragma once

#include "backends/cuda/command.hpp"
#include "seams/fabric/fabric.hpp"
#include <tanada/device/detail/simt/copy.hpp>

namespace tanada::port::cuda {

// Whole, at once seen by all and never of an old copy: volatile is relaxed, of the system's scope.
template <class T>
__device__ inline T load_shared(uint64_t addr) {
  return *reinterpret_cast<const volatile T *>(addr);
}
template <class T>
__device__ inline void store_shared(uint64_t addr, T value) {
  *reinterpret_cast<volatile T *>(addr) = value;
}

// The widest words, of 1 to 8 bytes, that all of it consists of.
__device__ inline uint32_t width_of(uint64_t mixed) {
  return (mixed & 7) == 0 ? 8 : (mixed & 3) == 0 ? 4 : (mixed & 1) == 0 ? 2 : 1;
}

__device__ inline void move_word(uint32_t width, uint64_t target, uint64_t source) {
  switch (width) {
    case 8: store_shared(target, load_shared<uint64_t>(source)); break;
    case 4: store_shared(target, load_shared<uint32_t>(source)); break;
    case 2: store_shared(target, load_shared<uint16_t>(source)); break;
    default: store_shared(target, load_shared<uint8_t>(source));
  }
}

// One warp; `bytes` in shared memory, at a multiple of 8. Where the calling lane has stored last;
// 0: nowhere.
__device__ inline uint64_t perform_write(const command &what) {
  uint32_t const lane = threadIdx.x % simt::warp_size, width = width_of(what.target);
  if (width < 4) {
    uint64_t last = 0;
    for (uint32_t i = lane; i < what.size; i += simt::warp_size) {
      last = what.target + i;
      store_shared(last, what.bytes[i]);
    }
    return last;
  }
  uint32_t const whole = what.size / width, at = whole * width + lane - whole;
  if (lane < whole) {
    if (width == 8)
      store_shared(what.target + lane * 8, reinterpret_cast<const uint64_t *>(what.bytes)[lane]);
    else
      store_shared(what.target + lane * 4, reinterpret_cast<const uint32_t *>(what.bytes)[lane]);
    return what.target + lane * width;
  }
  if (at >= what.size)
    return 0;
  store_shared(what.target + at, what.bytes[at]);
  return what.target + at;
}

// Each lane has stored one word at most.
__device__ inline bool is_provable(const command &what) {
  return width_of(what.target) >= 4 || what.size <= simt::warp_size;
}

// Any group.
template <class Group>
__device__ inline void perform_copy(Group group, uint64_t target, uint64_t source, uint64_t size) {
  if (((target | source | size) & 7) == 0 && size <= 2048) {
    for (uint64_t i = group.rank() * 8; i < size; i += group.size() * 8)
      store_shared(target + i, load_shared<uint64_t>(source + i));
  } else {
    simt::copy_from_host(group, reinterpret_cast<void *>(target),
                         reinterpret_cast<const void *>(source), size);
  }
}

template <class Group>
__device__ inline void perform_rows(Group group, const command &what) {
  rows_words const &rows = what.rows;
  uint32_t const width = width_of(what.target | rows.source | what.size |
                                  uint64_t(rows.target_stride) | uint64_t(rows.source_stride));
  uint64_t const row_words = what.size / width, words = row_words * rows.count;
  for (uint64_t i = group.rank(); i < words; i += group.size()) {
    uint64_t const row = i / row_words, at = i % row_words * width;
    move_word(width, what.target + row * uint64_t(rows.target_stride) + at,
              rows.source + row * uint64_t(rows.source_stride) + at);
  }
}

// One thread. What was there.
template <class T>
__device__ inline T perform_update_of(fabric_atomic kind, T *target, T operand, T compare) {
  switch (kind) {
    case fabric_atomic::add: return atomicAdd_system(target, operand);
    case fabric_atomic::bit_and: return atomicAnd_system(target, operand);
    case fabric_atomic::bit_or: return atomicOr_system(target, operand);
    case fabric_atomic::bit_xor: return atomicXor_system(target, operand);
    case fabric_atomic::swap: return atomicExch_system(target, operand);
    case fabric_atomic::compare_swap: return atomicCAS_system(target, compare, operand);
    case fabric_atomic::fetch: break;
  }
  return load_shared<T>(reinterpret_cast<uint64_t>(target));
}

__device__ inline uint64_t perform_update(const command &what) {
  auto const kind = fabric_atomic(what.atomic);
  if (what.size == 4)
    return perform_update_of(kind, reinterpret_cast<u32 *>(what.target), u32(what.update.operand),
                             u32(what.update.compare));
  return perform_update_of(kind, reinterpret_cast<u64 *>(what.target), u64(what.update.operand),
                           u64(what.update.compare));
}

}  // namespace tanada::port::cuda
