// tanada/device/detail/shmem/calls/reduce_scatter.hpp: reductions of which each member gets a part.
// Not for direct inclusion.
#pragma once

#include "reduce.hpp"

namespace tanada::shmem::device {

// Reduce this member's part of all sources, which are mapped.
template <reduction Op, class Group, class T>
TND_DEVICE inline void reduce_own_part(
    Group group, const member_view &self, T *target, const T *source, u64 element_count) {
  const T *const own_part = source + element_count * u64(self.team.me);
  for (u64 i = group.rank(); i < element_count; i += group.size()) {
    T total{};
    for (int member = 0; member < self.team.count; member++) {
      T const value =
          *reinterpret_cast<const T *>(word_of(own_part + i) + distance_to(self.world(member)));
      total = member == 0 ? value : combine<Op>(total, value);
    }
    target[i] = total;
  }
}

// By loads from all sources, between two meetings.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_scatter_mapped(
    Group group, member_view &self, T *target, const T *source, u64 element_count) {
  self.epoch = next_epoch(self);
  group.sync();
  status const code = meet(group, self, site::reduce);  // the sources are ready
  self.epoch++;
  self.is_settled = false;
  if (code == status::ok)
    reduce_own_part<Op>(group, self, target, source, element_count);
  return end_puts_and_meet(group, self, code, site::reduce);
}

// Through boxes, as many elements at a time as one holds: for unmapped members, and where the
// target overlaps the source, of which members still need other parts.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_scatter_boxed(
    Group group, member_view &self, T *target, const T *source, u64 element_count) {
  self.is_settled = false;
  u64 const step_max = u64(job_view().box_size) * 2 / sizeof(T);
  for (u64 done = 0; done < element_count;) {
    u64 const step = element_count - done < step_max ? element_count - done : step_max;
    begin(group, self, true);
    u8 *const own_box = reinterpret_cast<u8 *>(box_of(self, self.team.me));
    for (int i = 0; i < self.team.count; i++) {
      int const member = member_after(self, i);
      const T *const part = source + element_count * u64(member) + done;
      TND_TRY(put_to(
          group, self, own_box, reinterpret_cast<const u8 *>(part), step * sizeof(T), member));
    }
    TND_TRY(end_puts(group, self));
    TND_TRY(meet(group, self, site::reduce));
    reduce_boxes<Op>(group, self, target + done, step);
    group.sync();
    done += step;
  }
  return status::ok;
}

// Reduce sources of `element_count` elements for each member, in the order of the members; each
// gets its part. The target is the beginning of the source, or apart from it.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_scatter(
    Group group, u64 team, T *target, const T *source, u64 element_count) {
  member_view self;
  if (!find_team(team, self))
    return failed(group, status::invalid, site::reduce, nullptr, job_view().me);
  u64 const size = element_count * sizeof(T), whole_size = size * u64(self.team.count);
  if (element_count > job_view().heap_size || !is_symmetric_part(target, size) ||
      !is_symmetric_part(source, whole_size))
    return failed(group, status::range, site::reduce, target, job_view().me);
  group.sync();
  bool const is_apart =
      word_of(target) >= word_of(source) + whole_size || word_of(source) >= word_of(target) + size;
  // Members agree on the way: addresses are symmetric.
  if (self.team.has_unmapped != 0 || !is_apart)
    return reduce_scatter_boxed<Op>(group, self, target, source, element_count);
  return reduce_scatter_mapped<Op>(group, self, target, source, element_count);
}

}  // namespace tanada::shmem::device
