// backends/cuda/perform.cuh: device code that carries out a command.
#pragma once

#include "backends/cuda/command.hpp"
#include "seams/fabric/fabric.hpp"
#include <tanada/device/detail/simt/copy.hpp>

namespace tanada::backends::cuda {

// Accesses are not torn, visible to all at once, and never served from a stale cache line: volatile
// means relaxed with system scope.
template <class T>
__device__ inline T load_shared(uint64_t addr) {
  return *reinterpret_cast<const volatile T *>(addr);
}
template <class T>
__device__ inline void store_shared(uint64_t addr, T value) {
  *reinterpret_cast<volatile T *>(addr) = value;
}

// Returns the widest word, of 1 to 8 bytes, of which all values or-ed into `mixed` are multiples.
__device__ inline uint32_t width_of(uint64_t mixed) {
  return (mixed & 7) == 0 ? 8 : (mixed & 3) == 0 ? 4 : (mixed & 1) == 0 ? 2 : 1;
}

__device__ inline void move_word(uint32_t width, uint64_t target, uint64_t source) {
  switch (width) {
    case 8:
      store_shared(target, load_shared<uint64_t>(source));
      break;
    case 4:
      store_shared(target, load_shared<uint32_t>(source));
      break;
    case 2:
      store_shared(target, load_shared<uint16_t>(source));
      break;
    default:
      store_shared(target, load_shared<uint8_t>(source));
  }
}

// Called by one warp; `bytes` is in shared memory, aligned to 8. Returns the address of the calling
// lane's last store; 0: it stored nothing.
__device__ inline uint64_t perform_write(const command &request) {
  uint32_t const lane = threadIdx.x % simt::warp_size, width = width_of(request.target);
  if (width < 4) {
    uint64_t last = 0;
    for (uint32_t i = lane; i < request.size; i += simt::warp_size) {
      last = request.target + i;
      store_shared(last, request.bytes[i]);
    }
    return last;
  }
  uint32_t const whole = request.size / width, offset = whole * width + lane - whole;
  if (lane < whole) {
    if (width == 8)
      store_shared(request.target + lane * 8,
                   reinterpret_cast<const uint64_t *>(request.bytes)[lane]);
    else
      store_shared(request.target + lane * 4,
                   reinterpret_cast<const uint32_t *>(request.bytes)[lane]);
    return request.target + lane * width;
  }
  if (offset >= request.size)
    return 0;
  store_shared(request.target + offset, request.bytes[offset]);
  return request.target + offset;
}

// Returns true if each lane stores at most one word.
__device__ inline bool is_provable(const command &request) {
  return width_of(request.target) >= 4 || request.size <= simt::warp_size;
}

// Called by any group.
template <class Group>
__device__ inline void perform_copy(Group group, uint64_t target, uint64_t source, uint64_t size) {
  if (((target | source | size) & 7) == 0 && size <= 2048) {
    for (uint64_t i = group.rank() * 8; i < size; i += group.size() * 8)
      store_shared(target + i, load_shared<uint64_t>(source + i));
  } else {
    simt::copy_from_host(
        group, reinterpret_cast<void *>(target), reinterpret_cast<const void *>(source), size);
  }
}

template <class Group>
__device__ inline void perform_rows(Group group, const command &request) {
  rows_words const &rows = request.rows;
  uint32_t const width = width_of(request.target | rows.source | request.size |
                                  uint64_t(rows.target_stride) | uint64_t(rows.source_stride));
  uint64_t const row_words = request.size / width, words = row_words * rows.count;
  for (uint64_t i = group.rank(); i < words; i += group.size()) {
    uint64_t const row = i / row_words, offset = i % row_words * width;
    move_word(width,
              request.target + row * uint64_t(rows.target_stride) + offset,
              rows.source + row * uint64_t(rows.source_stride) + offset);
  }
}

// Called by one thread. Returns the old value.
template <class T>
__device__ inline T perform_update_of(seams::fabric_atomic kind, T *target, T operand, T compare) {
  switch (kind) {
    case seams::fabric_atomic::add:
      return atomicAdd_system(target, operand);
    case seams::fabric_atomic::bit_and:
      return atomicAnd_system(target, operand);
    case seams::fabric_atomic::bit_or:
      return atomicOr_system(target, operand);
    case seams::fabric_atomic::bit_xor:
      return atomicXor_system(target, operand);
    case seams::fabric_atomic::swap:
      return atomicExch_system(target, operand);
    case seams::fabric_atomic::compare_swap:
      return atomicCAS_system(target, compare, operand);
    case seams::fabric_atomic::fetch:
      break;
  }
  return load_shared<T>(reinterpret_cast<uint64_t>(target));
}

__device__ inline uint64_t perform_update(const command &request) {
  auto const kind = seams::fabric_atomic(request.atomic);
  if (request.size == 4)
    return perform_update_of(kind,
                             reinterpret_cast<u32 *>(request.target),
                             u32(request.update.operand),
                             u32(request.update.compare));
  return perform_update_of(kind,
                           reinterpret_cast<u64 *>(request.target),
                           u64(request.update.operand),
                           u64(request.update.compare));
}

}  // namespace tanada::backends::cuda
