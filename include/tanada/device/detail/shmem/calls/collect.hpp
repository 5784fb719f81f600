// tanada/device/detail/shmem/calls/collect.hpp: collectives that move data. Not for direct
// inclusion.
//
// Small messages go through boxes. A word of a box is half message and half epoch, so a reader that
// sees the epoch has the message, and no fence is needed. A box is reused after box_parity epochs.
// By then all members must have ended the collective that used it, which a broadcast from one to
// all does not guarantee; see begin_boxed(). Large messages go directly to their targets, followed
// by arrivals. Teams with an unmapped member always use the second method.
#pragma once

#include "sync.hpp"

namespace tanada::shmem::device {

TND_DEVICE inline u64 *box_of(const member_view &self, int sender) {
  return reinterpret_cast<u64 *>(
      job_view().control + shape().box(self.index, u32(self.epoch % box_parity), u32(sender)));
}

// This PE's box at a member.
TND_DEVICE inline u64 *own_box_at(const member_view &self, int member) {
  return reinterpret_cast<u64 *>(word_of(box_of(self, self.team.me)) +
                                 distance_to(self.world(member)));
}

TND_DEVICE inline bool fits_boxes(const member_view &self, u64 size) {
  return self.team.has_unmapped == 0 && size <= job_view().box_size;
}

// As begin(), for a collective that uses boxes: no member still needs their old contents.
template <class Group>
TND_DEVICE inline status begin_boxed(Group group, member_view &self, bool meets, site call_site) {
  team_progress &progress = job_view().live->teams[self.index];
  u64 const safe = simt::device_atomic<u64>(progress.safe).load_relaxed();
  self.epoch = next_epoch(self);
  group.sync();
  if (self.epoch > safe + box_parity) {
    status const code = meet_and_record(group, self, call_site);
    if (code != status::ok)
      return code;
    self.epoch++;
  }
  record_epoch(group, self, meets);
  return status::ok;
}

// ---- a word of a message: at most 4 bytes

TND_DEVICE inline u32 load_part(const u8 *source, u64 size, u64 index) {
  u64 const offset = index * 4, remaining = size - offset;
  if ((word_of(source) & 3) == 0 && remaining >= 4)
    return *reinterpret_cast<const u32 *>(source + offset);
  u32 value = 0;
  for (u32 i = 0; i < 4 && i < remaining; i++)
    value |= u32(source[offset + i]) << 8 * i;
  return value;
}
TND_DEVICE inline void store_part(u8 *target, u64 size, u64 index, u32 value) {
  u64 const offset = index * 4, remaining = size - offset;
  if ((word_of(target) & 3) == 0 && remaining >= 4) {
    *reinterpret_cast<u32 *>(target + offset) = value;
    return;
  }
  for (u32 i = 0; i < 4 && i < remaining; i++)
    target[offset + i] = u8(value >> 8 * i);
}

TND_DEVICE inline void send_part(u64 *box, u64 index, u64 epoch, u32 value) {
  simt::system_atomic<u64>(box[index]).store_relaxed(epoch << 32 | value);
}

// The parts of this thread that are in flight at once. A load or store of memory takes hundreds of
// nanoseconds, so a thread that has many parts must not wait for each.
inline constexpr u32 box_batch = 8;

// Receive `Each` parts of each of the elements at `first` and at steps of `stride`.
template <u32 Each = 1, u32 Count>
TND_DEVICE inline status receive_parts(
    u64 *box, u64 first, u64 stride, u64 epoch, u32 (&values)[Count]) {
  for (wait_limit limit;;) {
    u32 poll_count = limit.poll_count();
    bool is_met = false;
    TND_NO_UNROLL
    do {
      u64 words[Count];
      for (u32 k = 0; k < Count; k++)
        words[k] = simt::system_atomic<u64>(box[(first + k / Each * stride) * Each + k % Each])
                       .load_relaxed();
      is_met = true;
      for (u32 k = 0; k < Count; k++) {
        values[k] = u32(words[k]);
        is_met &= u32(words[k] >> 32) == u32(epoch);
      }
      if (!is_met)
        wait_limit::between_polls();
    } while (!is_met & (--poll_count != 0));
    if (__builtin_expect(is_met, 1))
      return status::ok;
    status const code = limit.next();
    if (code != status::ok)
      return code;
  }
}

TND_DEVICE inline status receive_part(u64 *box, u64 index, u64 epoch, u32 &value) {
  u32 values[1];
  TND_TRY(receive_parts(box, index, 0, epoch, values));
  value = values[0];
  return status::ok;
}

// A thread's parts of a message of `size` bytes: those at its rank and at steps of `stride`.
struct box_share {
  u64 rank, stride, size, epoch;
};

// One instance for threads, warps and blocks, whose registers do not add to those of a collective.
TND_DEVICE_CALL inline void send_share(u64 *box, const u8 *source, box_share share) {
  u64 const part_count = (share.size + 3) / 4, stride = share.stride;
  u64 i = share.rank;
  TND_NO_UNROLL
  for (; i + (box_batch - 1) * stride < part_count; i += box_batch * stride) {
    u32 values[box_batch];
    for (u32 k = 0; k < box_batch; k++)
      values[k] = load_part(source, share.size, i + k * stride);
    for (u32 k = 0; k < box_batch; k++) {
      send_part(box, i + k * stride, share.epoch, values[k]);
    }
  }
  TND_NO_UNROLL
  for (; i < part_count; i += stride) {
    send_part(box, i, share.epoch, load_part(source, share.size, i));
  }
}
TND_DEVICE_CALL inline status receive_share(u64 *box, u8 *target, box_share share) {
  u64 const part_count = (share.size + 3) / 4, stride = share.stride;
  u64 i = share.rank;
  TND_NO_UNROLL
  for (; i + (box_batch - 1) * stride < part_count; i += box_batch * stride) {
    u32 values[box_batch];
    TND_TRY(receive_parts(box, i, stride, share.epoch, values));
    for (u32 k = 0; k < box_batch; k++) {
      store_part(target, share.size, i + k * stride, values[k]);
    }
  }
  TND_NO_UNROLL
  for (; i < part_count; i += stride) {
    u32 value = 0;
    TND_TRY(receive_part(box, i, share.epoch, value));
    store_part(target, share.size, i, value);
  }
  return status::ok;
}

template <class Group>
TND_DEVICE inline void send_boxed(
    Group group, const member_view &self, const u8 *source, u64 size, int member) {
  send_share(own_box_at(self, member), source, {group.rank(), group.size(), size, self.epoch});
}
template <class Group>
TND_DEVICE inline status receive_boxed(
    Group group, const member_view &self, u8 *target, u64 size, int member) {
  return receive_share(
      box_of(self, member), target, {group.rank(), group.size(), size, self.epoch});
}

// ---- pieces of large messages

// The member that many places after this PE, so that not all members start with the same one.
TND_DEVICE inline int member_after(const member_view &self, int steps) {
  int const next = self.team.me + steps;
  return next < self.team.count ? next : next - self.team.count;
}

template <class Group>
TND_DEVICE inline status put_to(
    Group group, const member_view &self, u8 *target, const u8 *source, u64 size, int member) {
  int const pe = self.world(member);
  u64 const distance = distance_to(pe);
  if (distance == unreached)
    return host_put(group, target, source, size, pe);
  u8 *const remote = reinterpret_cast<u8 *>(word_of(target) + distance);
  if (remote != source)
    copy_out(group, remote, source, size);
  return status::ok;
}

// The group's puts complete before this PE's arrival is sent. Precedes one arrival or all.
template <class Group>
TND_DEVICE inline status end_puts(Group group, const member_view &self) {
  group.sync();
  status code = status::ok;
  if (self.team.has_unmapped != 0 && group.rank() == 0)
    code = quiet_by_one();
  return self.team.has_unmapped == 0 ? status::ok : status(int(group.broadcast(u32(int(code)))));
}

// As end_puts() if no put has failed, and then all members meet. Records the epoch, which all
// threads have read.
template <class Group>
TND_DEVICE inline status end_puts_and_meet(Group group,
                                           const member_view &self,
                                           status code,
                                           site call_site) {
  if (code == status::ok)
    code = end_puts(group, self);
  if (code != status::ok) {
    record_epoch(group, self, true);
    return code;
  }
  return meet_and_record(group, self, call_site);
}

// ---- the collectives, after checks of the team and the arguments

// One piece of each member goes to `target`.
template <class Group>
TND_DEVICE inline status find_collect(
    Group group, u64 team, const void *target, u64 size, site call_site, member_view &self) {
  if (!find_team(team, self))
    return failed(group, status::invalid, call_site, nullptr, job_view().me);
  if (size > job_view().heap_size || !is_symmetric_part(target, size * u64(self.team.count)))
    return failed(group, status::range, call_site, target, job_view().me);
  return status::ok;
}

template <class Group>
TND_DEVICE inline status find_broadcast(
    Group group, u64 team, const void *target, u64 size, int root, member_view &self) {
  if (!find_team(team, self) || u32(root) >= u32(self.team.count))
    return failed(group, status::invalid, site::broadcast, nullptr, job_view().me);
  return is_symmetric_part(target, size)
             ? status::ok
             : failed(group, status::range, site::broadcast, target, job_view().me);
}

// Send the same bytes to the boxes of all other members.
template <class Group>
TND_DEVICE inline void send_boxed_to_all(Group group,
                                         const member_view &self,
                                         const u8 *source,
                                         u64 size) {
  for (int step = 1; step < self.team.count; step++) {
    send_boxed(group, self, source, size, member_after(self, step));
  }
}

// Receive the pieces of all other members, and put them in the order of members.
template <class Group>
TND_DEVICE inline status receive_boxed_from_all(Group group,
                                                const member_view &self,
                                                u8 *target,
                                                u64 size) {
  int const count = self.team.count;
  status code = status::ok;
  for (int step = 1; step < count && code == status::ok; step++) {
    int const member = member_after(self, count - step);
    code = receive_boxed(group, self, target + u64(member) * size, size, member);
  }
  return code;
}

// Each member's `size` bytes go to all members, in the order of members.
template <class Group>
TND_DEVICE inline status fcollect(
    Group group, u64 team, void *target, const void *source, u64 size) {
  member_view self;
  TND_TRY(find_collect(group, team, target, size, site::fcollect, self));
  int const count = self.team.count;
  group.sync();
  u8 *const output = static_cast<u8 *>(target);
  const u8 *const input = static_cast<const u8 *>(source);
  status code = status::ok;
  if (fits_boxes(self, size)) {
    TND_TRY(begin_boxed(group, self, true, site::fcollect));
    send_boxed_to_all(group, self, input, size);
    if (output + u64(self.team.me) * size != input)
      simt::copy(group, output + u64(self.team.me) * size, input, size);
    return agree(group, receive_boxed_from_all(group, self, output, size), site::fcollect);
  }
  self.epoch = next_epoch(self);
  for (int step = 0; step < count && code == status::ok; step++) {
    code = put_to(
        group, self, output + u64(self.team.me) * size, input, size, member_after(self, step));
  }
  return end_puts_and_meet(group, self, code, site::fcollect);
}

template <class Group>
TND_DEVICE inline status alltoall_boxed(
    Group group, member_view &self, u8 *output, const u8 *input, u64 size) {
  TND_TRY(begin_boxed(group, self, true, site::alltoall));
  for (int step = 1; step < self.team.count; step++) {
    int const member = member_after(self, step);
    send_boxed(group, self, input + u64(member) * size, size, member);
  }
  simt::copy(group, output + u64(self.team.me) * size, input + u64(self.team.me) * size, size);
  return agree(group, receive_boxed_from_all(group, self, output, size), site::alltoall);
}

// Send each member its piece of `size` bytes, and receive from each its piece for this PE.
template <class Group>
TND_DEVICE inline status alltoall(
    Group group, u64 team, void *target, const void *source, u64 size) {
  member_view self;
  TND_TRY(find_collect(group, team, target, size, site::alltoall, self));
  int const count = self.team.count;
  group.sync();
  u8 *const output = static_cast<u8 *>(target);
  const u8 *const input = static_cast<const u8 *>(source);
  status code = status::ok;
  if (fits_boxes(self, size))
    return alltoall_boxed(group, self, output, input, size);
  self.epoch = next_epoch(self);
  for (int step = 0; step < count && code == status::ok; step++) {
    int const member = member_after(self, step);
    code = put_to(
        group, self, output + u64(self.team.me) * size, input + u64(member) * size, size, member);
  }
  return end_puts_and_meet(group, self, code, site::alltoall);
}

// Split from this size on: the root gives each member one part, which that member gives to all
// others.
inline constexpr u64 broadcast_split_min = 65536;

// Bytes of each part, except the last ones.
TND_DEVICE inline u64 broadcast_part(u64 size, int count) {
  return (size / u64(count) + 15) / 16 * 16 + 16;
}

// The parts of a split broadcast, one for each member.
struct broadcast_parts {
  u64 size, part;

  TND_DEVICE u64 begin(int member) const {
    return part * u64(member) < size ? part * u64(member) : size;
  }
  TND_DEVICE u64 size_of(int member) const {
    return begin(member + 1) - begin(member);
  }
};

// The root puts each other member's part.
template <class Group>
TND_DEVICE inline status put_parts(Group group,
                                   const member_view &self,
                                   u8 *output,
                                   const u8 *input,
                                   const broadcast_parts &parts) {
  for (int step = 1; step < self.team.count; step++) {
    int const member = member_after(self, step);
    u64 const offset = parts.begin(member);
    TND_TRY(put_to(group, self, output + offset, input + offset, parts.size_of(member), member));
  }
  return end_puts(group, self);
}

template <class Group>
TND_DEVICE inline status broadcast_split(
    Group group, member_view &self, u8 *output, const u8 *input, u64 size, int root) {
  int const count = self.team.count, me = self.team.me;
  broadcast_parts const parts{size, broadcast_part(size, count)};
  u64 const own_offset = parts.begin(me), own_size = parts.size_of(me);
  begin(group, self, false);
  status code = status::ok;
  if (me == root) {
    TND_TRY(put_parts(group, self, output, input, parts));
    code = send_arrivals(group, self);
  } else if (group.rank() == 0) {
    code = await_arrival(self, root);
  }
  TND_TRY(agree(group, code, site::broadcast));
  begin(group, self, true);
  for (int step = 1; step < count; step++) {
    int const member = member_after(self, step);
    if (member == root && me != root)
      continue;
    TND_TRY(put_to(group,
                   self,
                   output + own_offset,
                   (me == root ? input : output) + own_offset,
                   own_size,
                   member));
  }
  if (me == root && output != input)
    simt::copy(group, output, input, size);
  TND_TRY(end_puts(group, self));
  return meet(group, self, site::broadcast);
}

// The root puts all bytes to each other member.
template <class Group>
TND_DEVICE inline status broadcast_whole(
    Group group, member_view &self, u8 *output, const u8 *input, u64 size, int root) {
  begin(group, self, false);
  status code = status::ok;
  if (self.team.me == root) {
    for (int step = 1; step < self.team.count; step++)
      TND_TRY(put_to(group, self, output, input, size, member_after(self, step)));
    if (output != input)
      simt::copy(group, output, input, size);
    TND_TRY(end_puts(group, self));
    code = send_arrivals(group, self);
  } else if (group.rank() == 0) {
    code = await_arrival(self, root);
  }
  return agree(group, code, site::broadcast);
}

// Copy the root's bytes to all members, including the root.
template <class Group>
TND_DEVICE inline status broadcast(
    Group group, u64 team, void *target, const void *source, u64 size, int root) {
  member_view self;
  TND_TRY(find_broadcast(group, team, target, size, root, self));
  group.sync();
  u8 *const output = static_cast<u8 *>(target);
  const u8 *const input = static_cast<const u8 *>(source);
  int const count = self.team.count, me = self.team.me;
  status code = status::ok;
  if (fits_boxes(self, size)) {
    TND_TRY(begin_boxed(group, self, false, site::broadcast));
    if (me == root) {
      send_boxed_to_all(group, self, input, size);
      if (output != input)
        simt::copy(group, output, input, size);
    } else {
      code = receive_boxed(group, self, output, size, root);
    }
    return agree(group, code, site::broadcast);
  }
  if (count > 2 && size >= broadcast_split_min)
    return broadcast_split(group, self, output, input, size, root);
  return broadcast_whole(group, self, output, input, size, root);
}

}  // namespace tanada::shmem::device
