// tanada/device/detail/shmem/calls/collect.hpp: collectives that move data. Not for direct
// inclusion.
//
// Small messages go through boxes: a word of a box is half message and half epoch, so that who sees
// the epoch has the message, and no fence is needed. A box is used again after box_parity epochs:
// by then all have ended the collective that it was used in, which a broadcast from one to all does
// not tell; see begin_boxed(). Large ones go to where they belong, and then arrivals are told.
// Where a member is not reached all goes the second way.
#pragma once

#include "sync.hpp"

namespace tanada::shmem::device {

TND_DEVICE inline u64 *box_of(const member_view &in, int from) {
  return reinterpret_cast<u64 *>(here().control +
                                 shape().box(in.index, u32(in.epoch % box_parity), u32(from)));
}

// This PE's box at a member.
TND_DEVICE inline u64 *own_box_at(const member_view &in, int member) {
  return reinterpret_cast<u64 *>(word_of(box_of(in, in.team.me)) + distance_to(in.world(member)));
}

TND_DEVICE inline bool fits_boxes(const member_view &in, u64 size) {
  return in.team.has_far == 0 && size <= here().box_size;
}

// As begin(), for a collective that uses boxes: what they held is no longer needed by anybody.
template <class Group>
TND_DEVICE inline status begin_boxed(Group group, member_view &in, bool meets, site where) {
  team_progress &progress = here().live->teams[in.index];
  u64 const safe = simt::device_atomic<u64>(progress.safe).load_relaxed();
  in.epoch = next_epoch(in);
  group.sync();
  if (in.epoch > safe + box_parity) {
    status const code = meet_and_note(group, in, where);
    if (code != status::ok)
      return code;
    in.epoch++;
  }
  note(group, in, meets);
  return status::ok;
}

// ---- a word of a message: at most 4 bytes

TND_DEVICE inline u32 load_part(const u8 *source, u64 size, u64 index) {
  u64 const at = index * 4, left = size - at;
  if ((word_of(source) & 3) == 0 && left >= 4)
    return *reinterpret_cast<const u32 *>(source + at);
  u32 value = 0;
  for (u32 i = 0; i < 4 && i < left; i++)
    value |= u32(source[at + i]) << 8 * i;
  return value;
}
TND_DEVICE inline void store_part(u8 *target, u64 size, u64 index, u32 value) {
  u64 const at = index * 4, left = size - at;
  if ((word_of(target) & 3) == 0 && left >= 4) {
    *reinterpret_cast<u32 *>(target + at) = value;
    return;
  }
  for (u32 i = 0; i < 4 && i < left; i++)
    target[at + i] = u8(value >> 8 * i);
}

TND_DEVICE inline void send_part(u64 *box, u64 index, u64 epoch, u32 value) {
  simt::system_atomic<u64>(box[index]).store_relaxed(epoch << 32 | value);
}
TND_DEVICE inline status receive_part(u64 *box, u64 index, u64 epoch, u32 &value) {
  simt::system_atomic<u64> const at(box[index]);
  for (patience left;;) {
    u32 looks = left.look_count();
    bool is_met = false;
    TND_NO_UNROLL
    do {
      u64 const word = at.load_relaxed();
      value = u32(word);
      is_met = u32(word >> 32) == u32(epoch);
      if (!is_met)
        patience::between_looks();
    } while (!is_met & (--looks != 0));
    if (__builtin_expect(is_met, 1))
      return status::ok;
    status const code = left.next();
    if (code != status::ok)
      return code;
  }
}

template <class Group>
TND_DEVICE inline void send_boxed(Group group, const member_view &in, const u8 *source, u64 size,
                                  int member) {
  u64 *const box = own_box_at(in, member);
  for (u64 i = group.rank(); i * 4 < size; i += group.size())
    send_part(box, i, in.epoch, load_part(source, size, i));
}
template <class Group>
TND_DEVICE inline status receive_boxed(Group group, const member_view &in, u8 *target, u64 size,
                                       int member) {
  u64 *const box = box_of(in, member);
  for (u64 i = group.rank(); i * 4 < size; i += group.size()) {
    u32 value = 0;
    status const code = receive_part(box, i, in.epoch, value);
    if (code != status::ok)
      return code;
    store_part(target, size, i, value);
  }
  return status::ok;
}

// ---- pieces of large messages

// A member's number that many after this PE's, so that not all begin with the same one.
TND_DEVICE inline int member_after(const member_view &in, int steps) {
  int const next = in.team.me + steps;
  return next < in.team.count ? next : next - in.team.count;
}

template <class Group>
TND_DEVICE inline status put_to(Group group, const member_view &in, u8 *target, const u8 *source,
                                u64 size, int member) {
  int const pe = in.world(member);
  u64 const distance = distance_to(pe);
  if (distance == unreached)
    return far_put(group, target, source, size, pe);
  u8 *const there = reinterpret_cast<u8 *>(word_of(target) + distance);
  if (there != source)
    copy_out(group, there, source, size);
  return status::ok;
}

// Puts of the group are there before this PE's arrival is told. One member's word, or all.
template <class Group>
TND_DEVICE inline status end_puts(Group group, const member_view &in) {
  group.sync();
  status code = status::ok;
  if (in.team.has_far != 0 && group.rank() == 0)
    code = quiet_alone();
  return in.team.has_far == 0 ? status::ok : status(int(group.broadcast(u32(int(code)))));
}

// The same, if puts have not failed, and then all meet. All threads know the epoch, which is noted.
template <class Group>
TND_DEVICE inline status end_puts_and_meet(Group group, const member_view &in, status code,
                                           site where) {
  if (code == status::ok)
    code = end_puts(group, in);
  if (code != status::ok) {
    note(group, in, true);
    return code;
  }
  return meet_and_note(group, in, where);
}

// ---- the collectives. First who takes part, and whether the arguments are right.

// One piece of each member goes to `target`.
template <class Group>
TND_DEVICE inline status find_collect(Group group, u64 team, const void *target, u64 size,
                                      site where, member_view &in) {
  if (!find_team(team, in))
    return failed(group, status::invalid, where, nullptr, here().me);
  if (size > here().heap_size || !is_symmetric(target, size * u64(in.team.count)))
    return failed(group, status::range, where, target, here().me);
  return status::ok;
}

template <class Group>
TND_DEVICE inline status find_broadcast(Group group, u64 team, const void *target, u64 size,
                                        int root, member_view &in) {
  if (!find_team(team, in) || u32(root) >= u32(in.team.count))
    return failed(group, status::invalid, site::broadcast, nullptr, here().me);
  return is_symmetric(target, size)
             ? status::ok
             : failed(group, status::range, site::broadcast, target, here().me);
}

// Each member's `size` bytes, by member, to all.
template <class Group>
TND_DEVICE inline status fcollect(Group group, u64 team, void *target, const void *source,
                                  u64 size) {
  member_view in;
  TND_TRY(find_collect(group, team, target, size, site::fcollect, in));
  int const count = in.team.count;
  group.sync();
  u8 *const to = static_cast<u8 *>(target);
  const u8 *const from = static_cast<const u8 *>(source);
  status code = status::ok;
  if (fits_boxes(in, size)) {
    TND_TRY(begin_boxed(group, in, true, site::fcollect));
    for (int step = 1; step < count; step++)
      send_boxed(group, in, from, size, member_after(in, step));
    if (to + u64(in.team.me) * size != from)
      simt::copy(group, to + u64(in.team.me) * size, from, size);
    for (int step = 1; step < count && code == status::ok; step++) {
      int const member = member_after(in, count - step);
      code = receive_boxed(group, in, to + u64(member) * size, size, member);
    }
    return agree(group, code, site::fcollect);
  }
  in.epoch = next_epoch(in);
  for (int step = 0; step < count && code == status::ok; step++)
    code = put_to(group, in, to + u64(in.team.me) * size, from, size, member_after(in, step));
  return end_puts_and_meet(group, in, code, site::fcollect);
}

// The piece of `size` bytes for each member, and from each its piece for this PE.
template <class Group>
TND_DEVICE inline status alltoall(Group group, u64 team, void *target, const void *source,
                                  u64 size) {
  member_view in;
  TND_TRY(find_collect(group, team, target, size, site::alltoall, in));
  int const count = in.team.count;
  group.sync();
  u8 *const to = static_cast<u8 *>(target);
  const u8 *const from = static_cast<const u8 *>(source);
  status code = status::ok;
  if (fits_boxes(in, size)) {
    TND_TRY(begin_boxed(group, in, true, site::alltoall));
    for (int step = 1; step < count; step++) {
      int const member = member_after(in, step);
      send_boxed(group, in, from + u64(member) * size, size, member);
    }
    simt::copy(group, to + u64(in.team.me) * size, from + u64(in.team.me) * size, size);
    for (int step = 1; step < count && code == status::ok; step++) {
      int const member = member_after(in, count - step);
      code = receive_boxed(group, in, to + u64(member) * size, size, member);
    }
    return agree(group, code, site::alltoall);
  }
  in.epoch = next_epoch(in);
  for (int step = 0; step < count && code == status::ok; step++) {
    int const member = member_after(in, step);
    code = put_to(group, in, to + u64(in.team.me) * size, from + u64(member) * size, size, member);
  }
  return end_puts_and_meet(group, in, code, site::alltoall);
}

// In parts: the root gives each member one, which gives it to all others.
inline constexpr u64 broadcast_split_min = 65536;

// All parts but the last ones are so large.
TND_DEVICE inline u64 broadcast_part(u64 size, int count) {
  return (size / u64(count) + 15) / 16 * 16 + 16;
}

template <class Group>
TND_DEVICE inline status broadcast_split(Group group, member_view &in, u8 *to, const u8 *from,
                                         u64 size, int root) {
  int const count = in.team.count, me = in.team.me;
  u64 const part = broadcast_part(size, count);
  auto const begin_of = [&](int member) {
    return part * u64(member) < size ? part * u64(member) : size;
  };
  u64 const mine = begin_of(me), mine_size = begin_of(me + 1) - mine;
  begin(group, in, false);
  status code = status::ok;
  if (me == root) {
    for (int step = 1; step < count; step++) {
      int const member = member_after(in, step);
      u64 const at = begin_of(member);
      TND_TRY(put_to(group, in, to + at, from + at, begin_of(member + 1) - at, member));
    }
    TND_TRY(end_puts(group, in));
    code = tell_all(group, in);
  } else if (group.rank() == 0) {
    code = await_arrival(in, root);
  }
  TND_TRY(agree(group, code, site::broadcast));
  begin(group, in, true);
  for (int step = 1; step < count; step++) {
    int const member = member_after(in, step);
    if (member == root && me != root)
      continue;
    TND_TRY(put_to(group, in, to + mine, (me == root ? from : to) + mine, mine_size, member));
  }
  if (me == root && to != from)
    simt::copy(group, to, from, size);
  TND_TRY(end_puts(group, in));
  return meet(group, in, site::broadcast);
}

// The root's bytes, in all members, the root among them.
template <class Group>
TND_DEVICE inline status broadcast(Group group, u64 team, void *target, const void *source,
                                   u64 size, int root) {
  member_view in;
  TND_TRY(find_broadcast(group, team, target, size, root, in));
  group.sync();
  u8 *const to = static_cast<u8 *>(target);
  const u8 *const from = static_cast<const u8 *>(source);
  int const count = in.team.count, me = in.team.me;
  status code = status::ok;
  if (fits_boxes(in, size)) {
    TND_TRY(begin_boxed(group, in, false, site::broadcast));
    if (me == root) {
      for (int step = 1; step < count; step++)
        send_boxed(group, in, from, size, member_after(in, step));
      if (to != from)
        simt::copy(group, to, from, size);
    } else {
      code = receive_boxed(group, in, to, size, root);
    }
    return agree(group, code, site::broadcast);
  }
  if (count > 2 && size >= broadcast_split_min)
    return broadcast_split(group, in, to, from, size, root);
  begin(group, in, false);
  if (me == root) {
    for (int step = 1; step < count; step++)
      TND_TRY(put_to(group, in, to, from, size, member_after(in, step)));
    if (to != from)
      simt::copy(group, to, from, size);
    TND_TRY(end_puts(group, in));
    code = tell_all(group, in);
  } else if (group.rank() == 0) {
    code = await_arrival(in, root);
  }
  return agree(group, code, site::broadcast);
}

}  // namespace tanada::shmem::device
