// tanada/device/detail/shmem/collect_on_stream.hpp: collectives in the order of a stream. Not for
// direct inclusion.
//
// If one block is as fast as many, the kernel runs the collective in one block. For more data, each
// block of the kernel has a share, and the last block to end synchronizes with the other PEs. No
// block waits for another of its kernel, so the blocks need not run at the same time.
#pragma once

#include "on_stream.hpp"

namespace tanada::shmem::device {

// A kernel of a stream begins when all stores of earlier kernels are performed, also at other
// devices: a GPU ends no kernel before that. So a kernel's first arrival needs no fence. The host
// executor's kernels guarantee less.
inline constexpr bool kernels_begin_settled = TND_SIMT_CUDA != 0;

inline constexpr u32 collective_blocks_max = TND_SIMT_CUDA ? 128 : 3;

TND_DEVICE inline u64 number_of(shmem_team_t team) {
  return reinterpret_cast<u64>(team);
}

// Returns true in all threads of the last block to arrive. Everything that the other blocks did
// before happens before what this block does next. The block must call clear() later; doing it here
// would require a fence.
TND_DEVICE inline bool is_last_block(u32 &ended) {
  this_block const block;
  block.sync();
  u32 is_last = 0;
  if (block.rank() == 0) {
    simt::device_atomic<u32> const counter(ended);
    simt::fence_stores();
    u32 before = 0;
    if constexpr (TND_SIMT_CUDA != 0)
      before = counter.fetch_add_relaxed(1);  // the fences make it an acquire and release
    else
      before = counter.fetch_add_acq_rel(1);
    is_last = before + 1 == simt::grid_size_x() ? 1 : 0;
    if (is_last != 0)
      simt::fence_stores();
  }
  return block.broadcast(is_last) != 0;
}
TND_DEVICE inline void clear(u32 &ended) {
  if (this_block{}.rank() == 0)
    simt::device_atomic<u32>(ended).store_relaxed(0);
}
TND_DEVICE inline block_progress &blocks_of(const member_view &self) {
  return job_view().live->blocks[self.index];
}

// After this block's share: the last block ends the collective. in.epoch: its last epoch, which all
// blocks have known since they began.
TND_DEVICE inline status end_blocks(const member_view &self, site call_site) {
  this_block const block;
  u32 &ended = blocks_of(self).last;
  if (!is_last_block(ended))
    return status::ok;
  status code = end_puts(block, self);
  if (code == status::ok)
    code = send_arrivals(block, self);
  record_epoch(block, self, true);
  clear(ended);
  return await_arrivals(block, self, call_site, code);
}

// Put a block's share of each of `piece_count` pieces of `size` bytes: calls put(piece, offset in
// it, size). Blocks start with different pieces, so that all links are in use.
template <class Put>
TND_DEVICE inline status put_share(u64 size, int piece_count, Put put) {
  byte_share const share = share_of_block(size);
  if (share.size == 0)
    return status::ok;
  int const first = piece_count == 0 ? 0 : int(simt::block_index_x() % u32(piece_count));
  for (int i = 0; i < piece_count; i++)
    TND_TRY(put((first + i) % piece_count, share.offset, share.size));
  return status::ok;
}

TND_DEVICE inline void fcollect_share(shmem_team_t team, u8 *target, const u8 *source, u64 size) {
  this_block const block;
  member_view self;
  if (find_collect(block, number_of(team), target, size, site::fcollect, self) != status::ok)
    return;
  self.epoch = next_epoch(self);
  u8 *const output = target + u64(self.team.me) * size;
  (void)put_share(size, self.team.count, [&](int step, u64 offset, u64 part) {
    return put_to(block, self, output + offset, source + offset, part, member_after(self, step));
  });
  (void)end_blocks(self, site::fcollect);
}

TND_DEVICE inline void alltoall_share(shmem_team_t team, u8 *target, const u8 *source, u64 size) {
  this_block const block;
  member_view self;
  if (find_collect(block, number_of(team), target, size, site::alltoall, self) != status::ok)
    return;
  self.epoch = next_epoch(self);
  u8 *const output = target + u64(self.team.me) * size;
  (void)put_share(size, self.team.count, [&](int step, u64 offset, u64 part) {
    int const member = member_after(self, step);
    return put_to(block, self, output + offset, source + u64(member) * size + offset, part, member);
  });
  (void)end_blocks(self, site::alltoall);
}

// ---- broadcasts

struct broadcast_data {
  u8 *target;
  const u8 *source;
  u64 size;
  int root;

  bool TND_DEVICE is_in_place() const {
    return target == source;
  }
};

// The root puts all bytes to the other member, and to itself.
TND_DEVICE inline void broadcast_whole_share(member_view &self, const broadcast_data &data) {
  this_block const block;
  self.epoch = next_epoch(self);
  if (self.team.me == data.root) {
    int const first = data.is_in_place() ? 1 : 0;
    (void)put_share(data.size, self.team.count - first, [&](int piece, u64 offset, u64 part) {
      return put_to(block,
                    self,
                    data.target + offset,
                    data.source + offset,
                    part,
                    member_after(self, piece + first));
    });
    u32 &ended = blocks_of(self).last;
    if (!is_last_block(ended))
      return;
    status code = end_puts(block, self);
    if (code == status::ok)
      code = send_arrivals(block, self);
    record_epoch(block, self, false);
    clear(ended);
    (void)agree(block, code, site::broadcast);
  } else if (simt::block_index_x() == 0) {
    status const code = block.rank() == 0 ? await_arrival(self, data.root) : status::ok;
    record_epoch(block, self, false);
    (void)agree(block, code, site::broadcast);
  }
}

// Returns how many of `size_max` bytes from `begin` on are part of the data.
TND_DEVICE inline u64 size_within(const broadcast_data &data, u64 begin, u64 size_max) {
  u64 const rest = begin < data.size ? data.size - begin : 0;
  return size_max < rest ? size_max : rest;
}

// The root puts each other member's part, and then copies the data to its own target.
TND_DEVICE inline status put_parts_share(this_block block,
                                         member_view &self,
                                         const broadcast_data &data,
                                         u64 part) {
  status code = put_share(part, self.team.count - 1, [&](int piece, u64 offset, u64 size_max) {
    int const member = member_after(self, piece + 1);
    u64 const begin = part * u64(member) + offset, size = size_within(data, begin, size_max);
    return size == 0 ? status::ok
                     : put_to(block, self, data.target + begin, data.source + begin, size, member);
  });
  if (u32 &ended = blocks_of(self).first; is_last_block(ended)) {
    if (code == status::ok)
      code = end_puts(block, self);
    if (code == status::ok)
      code = send_arrivals(block, self);
    clear(ended);
    code = agree(block, code, site::broadcast);
  }
  if (!data.is_in_place()) {
    byte_share const share = share_of_block(data.size);
    simt::copy(block, data.target + share.offset, data.source + share.offset, share.size);
  }
  return code;
}

// Each member puts its own part to all others, except to the root, which has the data.
TND_DEVICE inline void put_own_part_share(
    this_block block, member_view &self, const broadcast_data &data, u64 own_offset, u64 own_size) {
  int const count = self.team.count, me = self.team.me;
  bool const is_root = me == data.root;
  int const steps_to_root = is_root ? count : (data.root - me + count) % count;
  const u8 *const source = is_root ? data.source : data.target;
  (void)put_share(own_size, is_root ? count - 1 : count - 2, [&](int piece, u64 offset, u64 size) {
    int const step = piece + 1 < steps_to_root ? piece + 1 : piece + 2;
    return put_to(block,
                  self,
                  data.target + own_offset + offset,
                  source + own_offset + offset,
                  size,
                  member_after(self, step));
  });
}

// As broadcast_split(). The first epoch, in which the root announces the parts, ends with the
// kernel.
TND_DEVICE inline void broadcast_split_share(member_view &self, const broadcast_data &data) {
  this_block const block;
  u64 const part = broadcast_part(data.size, self.team.count);
  status code = status::ok;
  self.epoch = next_epoch(self);
  if (self.team.me == data.root) {
    code = put_parts_share(block, self, data, part);
  } else {
    if (block.rank() == 0)
      code = await_arrival(self, data.root);
    code = agree(block, code, site::broadcast);
  }
  u64 const own_offset = part * u64(self.team.me);
  u64 const own_size = size_within(data, own_offset, part);
  if (code == status::ok && own_size != 0)
    put_own_part_share(block, self, data, own_offset, own_size);
  self.epoch++;
  (void)end_blocks(self, site::broadcast);
}

TND_DEVICE inline void broadcast_share(shmem_team_t team, const broadcast_data &data) {
  member_view self;
  if (find_broadcast(this_block{}, number_of(team), data.target, data.size, data.root, self) !=
      status::ok)
    return;
  if (self.team.count > 2)
    broadcast_split_share(self, data);
  else
    broadcast_whole_share(self, data);
}

// ---- reductions. In the first epoch all sources are ready. Every block sends arrivals and waits,
// which has the same effect as if one block did.

template <reduction Op, class T>
TND_DEVICE inline void reduce_share(shmem_team_t team,
                                    T *target,
                                    const T *source,
                                    u64 element_count) {
  this_block const block;
  member_view self;
  if (find_reduce(block, number_of(team), target, source, element_count, self) != status::ok)
    return;
  if (self.team.has_unmapped != 0) {
    if (simt::block_index_x() == 0)
      (void)reduce_unmapped<Op>(block, self, target, source, element_count);
    return;
  }
  block.sync();
  self.epoch = next_epoch(self);
  self.is_settled = kernels_begin_settled;
  if (meet(block, self, site::reduce) == status::ok) {
    element_range const range = elements_of_member<T>(self, element_count);
    u64 const packs = (range.end - range.begin + pack_count<T> - 1) / pack_count<T>,
              blocks = simt::grid_size_x();
    u64 const per_block = (packs + blocks - 1) / blocks * pack_count<T>,
              skipped = per_block * simt::block_index_x();
    if (skipped < range.end - range.begin) {
      u64 const begin = range.begin + skipped;
      reduce_range<Op>(block,
                       self,
                       target,
                       source,
                       {begin, range.end - begin < per_block ? range.end : begin + per_block});
    }
  }
  self.epoch++;
  self.is_settled = false;
  (void)end_blocks(self, site::reduce);
}

// ---- kernels: by one block, and by shares

static TND_KERNEL void sync_kernel(shmem_team_t team) {
  (void)sync(this_warp{}, number_of(team), site::sync, kernels_begin_settled);
}
static TND_KERNEL void barrier_kernel(shmem_team_t team) {
  (void)barrier(this_warp{}, number_of(team), kernels_begin_settled);
}

static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void fcollect_kernel(shmem_team_t team,
                                                                          u8 *target,
                                                                          const u8 *source,
                                                                          u64 size) {
  if (simt::grid_size_x() == 1)
    (void)fcollect(this_block{}, number_of(team), target, source, size);
  else
    fcollect_share(team, target, source, size);
}
static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void alltoall_kernel(shmem_team_t team,
                                                                          u8 *target,
                                                                          const u8 *source,
                                                                          u64 size) {
  if (simt::grid_size_x() == 1)
    (void)alltoall(this_block{}, number_of(team), target, source, size);
  else
    alltoall_share(team, target, source, size);
}
static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void broadcast_kernel(shmem_team_t team,
                                                                           broadcast_data data) {
  if (simt::grid_size_x() == 1)
    (void)broadcast(this_block{}, number_of(team), data.target, data.source, data.size, data.root);
  else
    broadcast_share(team, data);
}
template <reduction Op, class T>
static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void reduce_kernel(shmem_team_t team,
                                                                        T *target,
                                                                        const T *source,
                                                                        u64 element_count) {
  if (simt::grid_size_x() == 1)
    (void)reduce<Op>(
        this_block{}, number_of(team), target, source, element_count, kernels_begin_settled);
  else
    reduce_share<Op>(team, target, source, element_count);
}

// ---- the host's side. The kernel keeps argument errors for the host's next call; the caller gets
// a status for those that are already known.

struct launch_shape {
  u32 blocks, threads;
  bool is_team;
};

// Bytes of that many elements; the largest number if there cannot be so many.
template <class T>
inline u64 size_of_elements(const T *, u64 element_count) {
  return element_count < ~u64{0} / sizeof(T) ? element_count * sizeof(T) : ~u64{0};
}

// The same in all members. `size`: bytes of a member's part. One block moves all of them where they
// fit boxes.
inline launch_shape shape_for(shmem_team_t team, u64 size) {
  bool const is_device_team = reinterpret_cast<u64>(team) - team_first < team_count_max;
  int const count = is_device_team ? shmem_team_n_pes(team) : 0;
  if (count <= 0)
    return {1, 32, false};
  u64 const limit = one_block_size_max * collective_blocks_max;
  u64 const total = size < limit ? size * u64(count) : limit,
            wanted = (total + one_block_size_max - 1) / one_block_size_max;
  u32 blocks = wanted < 1                       ? 1
               : wanted < collective_blocks_max ? u32(wanted)
                                                : collective_blocks_max;
  if (size <= one_block_size_max)
    blocks = 1;  // several blocks gain less time than their synchronization costs
  return {blocks, size <= 128 ? 32u : copy_block_size, true};
}

template <class... Parameters, class... Arguments>
inline int launch_collective(stream on,
                             const launch_shape &shape,
                             void (*kernel)(Parameters...),
                             Arguments... arguments) {
  keep_pace(on);
  if (!simt::try_launch_on(on, {shape.blocks}, {shape.threads}, kernel, arguments...))
    return int(status::io);
  return int(shape.is_team ? status::ok : status::invalid);
}

inline int sync_on_stream(shmem_team_t team, stream on) {
  return launch_collective(on, shape_for(team, 0), sync_kernel, team);
}
inline int barrier_on_stream(shmem_team_t team, stream on) {
  return launch_collective(on, shape_for(team, 0), barrier_kernel, team);
}

inline int fcollect_on_stream(
    shmem_team_t team, void *target, const void *source, u64 size, stream on) {
  return launch_collective(on,
                           shape_for(team, size),
                           fcollect_kernel,
                           team,
                           static_cast<u8 *>(target),
                           static_cast<const u8 *>(source),
                           size);
}
inline int alltoall_on_stream(
    shmem_team_t team, void *target, const void *source, u64 size, stream on) {
  return launch_collective(on,
                           shape_for(team, size),
                           alltoall_kernel,
                           team,
                           static_cast<u8 *>(target),
                           static_cast<const u8 *>(source),
                           size);
}
inline int broadcast_on_stream(
    shmem_team_t team, void *target, const void *source, u64 size, int root, stream on) {
  launch_shape shape = shape_for(team, size);
  if (shape.is_team && (root < 0 || root >= shmem_team_n_pes(team)))
    shape = {1, 32, false};
  broadcast_data const data{static_cast<u8 *>(target), static_cast<const u8 *>(source), size, root};
  return launch_collective(on, shape, broadcast_kernel, team, data);
}
template <reduction Op, class T>
inline int reduce_on_stream(
    shmem_team_t team, T *target, const T *source, u64 element_count, stream on) {
  launch_shape const shape = shape_for(team, size_of_elements(target, element_count));
  return launch_collective(on, shape, reduce_kernel<Op, T>, team, target, source, element_count);
}

}  // namespace tanada::shmem::device
