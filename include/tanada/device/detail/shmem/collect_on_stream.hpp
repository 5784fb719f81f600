// tanada/device/detail/shmem/collect_on_stream.hpp: collectives in the order of a stream. Not for
// direct inclusion.
//
// What one block moves as fast as many is the kernels' collective by one block. Of more, each block
// of the kernel has a share; the last of them to end meets the other PEs. No block waits for
// another of its kernel, so they need not run at once.
#pragma once

#include "on_stream.hpp"

namespace tanada::shmem::device {

// A kernel of a stream begins when all that those before it have stored is performed, at other
// devices, too: a GPU ends none before. So the first thing that a kernel says needs no fence. The
// host executor's kernels hand on less.
inline constexpr bool kernels_begin_settled = TND_SIMT_CUDA != 0;

inline constexpr u32 collective_blocks_max = TND_SIMT_CUDA ? 128 : 3;

TND_DEVICE inline u64 number_of(shmem_team_t team) {
  return reinterpret_cast<u64>(team);
}

// True in all threads of the block that comes last; then what any block did before is done before
// what this one does next. It owes a clear(): not at once, for a fence would wait for it.
TND_DEVICE inline bool is_last_block(u32 &ended) {
  this_block const block;
  block.sync();
  u32 is_last = 0;
  if (block.rank() == 0) {
    simt::device_atomic<u32> const all(ended);
    simt::fence_stores();
    u32 before = 0;
    if constexpr (TND_SIMT_CUDA != 0)
      before = all.fetch_add_relaxed(1);  // the fences make it release and acquire
    else
      before = all.fetch_add_acq_rel(1);
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
TND_DEVICE inline block_progress &blocks_of(const member_view &in) {
  return here().live->blocks[in.index];
}

// After this block's share: the last one ends the collective. in.epoch: its last one, which all
// blocks have known since they began.
TND_DEVICE inline status end_blocks(const member_view &in, site where) {
  this_block const block;
  u32 &ended = blocks_of(in).last;
  if (!is_last_block(ended))
    return status::ok;
  status code = end_puts(block, in);
  if (code == status::ok)
    code = tell_all(block, in);
  note(block, in, true);
  clear(ended);
  return await_all(block, in, where, code);
}

// A block's share of each of `piece_count` pieces of `size` bytes: calls put(piece, offset in it,
// size), blocks by turns for one each, so that all links are in use.
template <class Put>
TND_DEVICE inline status put_share(u64 size, int piece_count, Put put) {
  byte_share const mine = share_of_block(size);
  if (mine.size == 0)
    return status::ok;
  int const first = piece_count == 0 ? 0 : int(simt::block_index_x() % u32(piece_count));
  for (int i = 0; i < piece_count; i++)
    TND_TRY(put((first + i) % piece_count, mine.offset, mine.size));
  return status::ok;
}

TND_DEVICE inline void fcollect_share(shmem_team_t team, u8 *target, const u8 *source, u64 size) {
  this_block const block;
  member_view in;
  if (find_collect(block, number_of(team), target, size, site::fcollect, in) != status::ok)
    return;
  in.epoch = next_epoch(in);
  u8 *const to = target + u64(in.team.me) * size;
  (void)put_share(size, in.team.count, [&](int step, u64 at, u64 part) {
    return put_to(block, in, to + at, source + at, part, member_after(in, step));
  });
  (void)end_blocks(in, site::fcollect);
}

TND_DEVICE inline void alltoall_share(shmem_team_t team, u8 *target, const u8 *source, u64 size) {
  this_block const block;
  member_view in;
  if (find_collect(block, number_of(team), target, size, site::alltoall, in) != status::ok)
    return;
  in.epoch = next_epoch(in);
  u8 *const to = target + u64(in.team.me) * size;
  (void)put_share(size, in.team.count, [&](int step, u64 at, u64 part) {
    int const member = member_after(in, step);
    return put_to(block, in, to + at, source + u64(member) * size + at, part, member);
  });
  (void)end_blocks(in, site::alltoall);
}

// ---- broadcasts

struct broadcast_data {
  u8 *to;
  const u8 *from;
  u64 size;
  int root;

  bool TND_DEVICE is_in_place() const {
    return to == from;
  }
};

// The root puts all of it to the other member, and to itself.
TND_DEVICE inline void broadcast_whole_share(member_view &in, const broadcast_data &of) {
  this_block const block;
  in.epoch = next_epoch(in);
  if (in.team.me == of.root) {
    int const first = of.is_in_place() ? 1 : 0;
    (void)put_share(of.size, in.team.count - first, [&](int piece, u64 at, u64 part) {
      return put_to(block, in, of.to + at, of.from + at, part, member_after(in, piece + first));
    });
    u32 &ended = blocks_of(in).last;
    if (!is_last_block(ended))
      return;
    status code = end_puts(block, in);
    if (code == status::ok)
      code = tell_all(block, in);
    note(block, in, false);
    clear(ended);
    (void)agree(block, code, site::broadcast);
  } else if (simt::block_index_x() == 0) {
    status const code = block.rank() == 0 ? await_arrival(in, of.root) : status::ok;
    note(block, in, false);
    (void)agree(block, code, site::broadcast);
  }
}

// As broadcast_split(). Its first epoch, in which the root tells that parts are there, is over when
// the kernel is.
TND_DEVICE inline void broadcast_split_share(member_view &in, const broadcast_data &of) {
  this_block const block;
  int const count = in.team.count, me = in.team.me;
  u64 const part = broadcast_part(of.size, count);
  auto const size_of = [&](u64 begin, u64 size_max) {
    return begin >= of.size ? 0 : size_max < of.size - begin ? size_max : of.size - begin;
  };
  status code = status::ok;
  in.epoch = next_epoch(in);
  if (me == of.root) {
    code = put_share(part, count - 1, [&](int piece, u64 at, u64 size_max) {
      int const member = member_after(in, piece + 1);
      u64 const begin = part * u64(member) + at, size = size_of(begin, size_max);
      return size == 0 ? status::ok
                       : put_to(block, in, of.to + begin, of.from + begin, size, member);
    });
    if (u32 &ended = blocks_of(in).first; is_last_block(ended)) {
      if (code == status::ok)
        code = end_puts(block, in);
      if (code == status::ok)
        code = tell_all(block, in);
      clear(ended);
      code = agree(block, code, site::broadcast);
    }
    if (!of.is_in_place()) {
      byte_share const mine = share_of_block(of.size);
      simt::copy(block, of.to + mine.offset, of.from + mine.offset, mine.size);
    }
  } else {
    if (block.rank() == 0)
      code = await_arrival(in, of.root);
    code = agree(block, code, site::broadcast);
  }
  u64 const mine = part * u64(me), mine_size = size_of(mine, part);
  if (code == status::ok && mine_size != 0) {
    int const steps_to_root = me == of.root ? count : (of.root - me + count) % count;  // who has it
    (void)put_share(
        mine_size, me == of.root ? count - 1 : count - 2, [&](int piece, u64 at, u64 size) {
          int const step = piece + 1 < steps_to_root ? piece + 1 : piece + 2;
          return put_to(block, in, of.to + mine + at, (me == of.root ? of.from : of.to) + mine + at,
                        size, member_after(in, step));
        });
  }
  in.epoch++;
  (void)end_blocks(in, site::broadcast);
}

TND_DEVICE inline void broadcast_share(shmem_team_t team, const broadcast_data &of) {
  member_view in;
  if (find_broadcast(this_block{}, number_of(team), of.to, of.size, of.root, in) != status::ok)
    return;
  if (in.team.count > 2)
    broadcast_split_share(in, of);
  else
    broadcast_whole_share(in, of);
}

// ---- reductions. In the first epoch all sources are ready: every block tells and waits, which is
// the same as one that does.

template <reduction Op, class T>
TND_DEVICE inline void reduce_share(shmem_team_t team, T *target, const T *source,
                                    u64 element_count) {
  this_block const block;
  member_view in;
  if (find_reduce(block, number_of(team), target, source, element_count, in) != status::ok)
    return;
  if (in.team.has_far != 0) {
    if (simt::block_index_x() == 0)
      (void)reduce_far<Op>(block, in, target, source, element_count);
    return;
  }
  block.sync();
  in.epoch = next_epoch(in);
  in.is_settled = kernels_begin_settled;
  if (meet(block, in, site::reduce) == status::ok) {
    element_range const all = elements_of_member<T>(in, element_count);
    u64 const packs = (all.end - all.begin + pack_count<T> - 1) / pack_count<T>,
              blocks = simt::grid_size_x();
    u64 const each = (packs + blocks - 1) / blocks * pack_count<T>,
              skipped = each * simt::block_index_x();
    if (skipped < all.end - all.begin) {
      u64 const begin = all.begin + skipped;
      reduce_range<Op>(block, in, target, source,
                       {begin, all.end - begin < each ? all.end : begin + each});
    }
  }
  in.epoch++;
  in.is_settled = false;
  (void)end_blocks(in, site::reduce);
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
                                                                           broadcast_data of) {
  if (simt::grid_size_x() == 1)
    (void)broadcast(this_block{}, number_of(team), of.to, of.from, of.size, of.root);
  else
    broadcast_share(team, of);
}
template <reduction Op, class T>
static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void reduce_kernel(shmem_team_t team,
                                                                        T *target, const T *source,
                                                                        u64 element_count) {
  if (simt::grid_size_x() == 1)
    (void)reduce<Op>(this_block{}, number_of(team), target, source, element_count,
                     kernels_begin_settled);
  else
    reduce_share<Op>(team, target, source, element_count);
}

// ---- the host's side. What is wrong with the arguments the kernel keeps for the host's next call;
// who calls is told what is known already.

struct launch_shape {
  u32 blocks, threads;
  bool is_team;
};

// Bytes of as many elements; more than there can be, where they are.
template <class T>
inline u64 size_of_elements(const T *, u64 element_count) {
  return element_count < ~u64{0} / sizeof(T) ? element_count * sizeof(T) : ~u64{0};
}

// The same in all members. `size`: bytes of a member's part, all of which one block moves where
// they fit boxes.
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
    blocks = 1;  // what many gain in time they lose by meeting
  return {blocks, size <= 128 ? 32u : copy_block_size, true};
}

template <class... Parameters, class... Arguments>
inline int launch_collective(stream on, const launch_shape &by, void (*kernel)(Parameters...),
                             Arguments... arguments) {
  keep_pace(on);
  if (!simt::try_launch_on(on, {by.blocks}, {by.threads}, kernel, arguments...))
    return int(status::io);
  return int(by.is_team ? status::ok : status::invalid);
}

inline int sync_on_stream(shmem_team_t team, stream on) {
  return launch_collective(on, shape_for(team, 0), sync_kernel, team);
}
inline int barrier_on_stream(shmem_team_t team, stream on) {
  return launch_collective(on, shape_for(team, 0), barrier_kernel, team);
}

inline int fcollect_on_stream(shmem_team_t team, void *target, const void *source, u64 size,
                              stream on) {
  return launch_collective(on, shape_for(team, size), fcollect_kernel, team,
                           static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}
inline int alltoall_on_stream(shmem_team_t team, void *target, const void *source, u64 size,
                              stream on) {
  return launch_collective(on, shape_for(team, size), alltoall_kernel, team,
                           static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}
inline int broadcast_on_stream(shmem_team_t team, void *target, const void *source, u64 size,
                               int root, stream on) {
  launch_shape by = shape_for(team, size);
  if (by.is_team && (root < 0 || root >= shmem_team_n_pes(team)))
    by = {1, 32, false};
  broadcast_data const of{static_cast<u8 *>(target), static_cast<const u8 *>(source), size, root};
  return launch_collective(on, by, broadcast_kernel, team, of);
}
template <reduction Op, class T>
inline int reduce_on_stream(shmem_team_t team, T *target, const T *source, u64 element_count,
                            stream on) {
  launch_shape const by = shape_for(team, size_of_elements(target, element_count));
  return launch_collective(on, by, reduce_kernel<Op, T>, team, target, source, element_count);
}

}  // namespace tanada::shmem::device
