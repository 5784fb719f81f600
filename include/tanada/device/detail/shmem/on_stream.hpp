// tanada/device/detail/shmem/on_stream.hpp: calls in the order of a stream, as small kernels that
// call the functions of shmemg.h. Not for direct inclusion.
#pragma once

#include "../simt/pace.hpp"

namespace tanada::shmem::device {

using simt::stream;

// Where the host carries out kernels' requests, calls must not run far ahead of it.
inline void keep_pace(stream on) {
  if (calls_host())
    simt::pace(on);
}

template <class... Parameters, class... Arguments>
inline void queue(stream on,
                  u32 block_count,
                  u32 block_size,
                  void (*kernel)(Parameters...),
                  Arguments... arguments) {
  keep_pace(on);
  simt::launch_on(on, {block_count}, {block_size}, kernel, arguments...);
}

inline constexpr u32 copy_block_size = TND_SIMT_CUDA ? 512 : 32,
                     copy_blocks_max = TND_SIMT_CUDA ? 64 : 2;

struct signal_update {
  uint64_t *offset;
  uint64_t value;
  int op;
};

// A block's part of a range of bytes: whole cache lines, except at the end.
struct byte_share {
  u64 offset, size;
};
TND_DEVICE inline byte_share share_of_block(u64 size) {
  u64 const lines = (size + 127) / 128,
            share_size = (lines + simt::grid_size_x() - 1) / simt::grid_size_x() * 128;
  u64 const begin = simt::block_index_x() * share_size;
  if (begin >= size)
    return {0, 0};
  return {begin, size - begin < share_size ? size - begin : share_size};
}

static TND_KERNEL void put_kernel(u8 *target, const u8 *source, u64 size, int pe) {
  byte_share const share = share_of_block(size);
  if (share.size != 0)
    shmemg_putmem_tg(target + share.offset, source + share.offset, share.size, pe);
}
static TND_KERNEL void get_kernel(u8 *target, const u8 *source, u64 size, int pe) {
  byte_share const share = share_of_block(size);
  if (share.size != 0)
    shmemg_getmem_tg(target + share.offset, source + share.offset, share.size, pe);
}
static TND_KERNEL void put_signal_kernel(
    u8 *target, const u8 *source, u64 size, signal_update signal, int pe) {
  shmemg_putmem_signal_tg(target, source, size, signal.offset, signal.value, signal.op, pe);
}
// Puts by earlier kernels of the stream complete first.
static TND_KERNEL void signal_kernel(signal_update signal, int pe) {
  shmemg_quiet();
  if (signal.op == SHMEM_SIGNAL_ADD)
    shmemg_uint64_atomic_add(signal.offset, signal.value, pe);
  else
    shmemg_uint64_atomic_set(signal.offset, signal.value, pe);
}
static TND_KERNEL void wait_kernel(uint64_t *offset, int cmp, uint64_t value) {
  (void)shmemg_signal_wait_until(offset, cmp, value);
}
static TND_KERNEL void quiet_kernel() {
  shmemg_quiet();
}

// One block saturates a link up to this size.
inline constexpr u64 one_block_size_max = 32 << 10;

inline u32 blocks_for(u64 size) {
  u64 const wanted = (size + one_block_size_max - 1) / one_block_size_max;
  return wanted < copy_blocks_max ? u32(wanted) : copy_blocks_max;
}

inline void put_on_stream(void *target, const void *source, size_t size, int pe, stream on) {
  if (size != 0)
    queue(on,
          blocks_for(size),
          copy_block_size,
          put_kernel,
          static_cast<u8 *>(target),
          static_cast<const u8 *>(source),
          size,
          pe);
}
inline void get_on_stream(void *target, const void *source, size_t size, int pe, stream on) {
  if (size != 0)
    queue(on,
          blocks_for(size),
          copy_block_size,
          get_kernel,
          static_cast<u8 *>(target),
          static_cast<const u8 *>(source),
          size,
          pe);
}
inline void signal_on_stream(const signal_update &signal, int pe, stream on) {
  queue(on, 1, 1, signal_kernel, signal, pe);
}
inline void put_signal_on_stream(
    void *target, const void *source, size_t size, const signal_update &signal, int pe, stream on) {
  if (size > one_block_size_max) {
    put_on_stream(target, source, size, pe, on);
    signal_on_stream(signal, pe, on);
  } else {
    queue(on,
          1,
          size > 256 ? copy_block_size : 32u,
          put_signal_kernel,
          static_cast<u8 *>(target),
          static_cast<const u8 *>(source),
          size,
          signal,
          pe);
  }
}
inline void wait_on_stream(uint64_t *offset, int cmp, uint64_t value, stream on) {
  queue(on, 1, 1, wait_kernel, offset, cmp, value);
}
inline void quiet_on_stream(stream on) {
  queue(on, 1, 1, quiet_kernel);
}

}  // namespace tanada::shmem::device
