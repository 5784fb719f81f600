// tanada/device/detail/shmem/calls/reduce.hpp: reductions, in the order of the members' numbers, so
// that all PEs get the same result. Not for direct inclusion.
#pragma once

#include "collect.hpp"

namespace tanada::shmem::device {

// max_location: of pairs x, y; the pair with the largest x, the first of equal ones.
enum class reduction : u32 { sum, prod, min, max, bit_and, bit_or, bit_xor, max_location };

template <reduction Op, class T>
TND_DEVICE inline T combine(T first, T second) {
  if constexpr (Op == reduction::sum)
    return T(first + second);
  else if constexpr (Op == reduction::prod)
    return T(first * second);
  else if constexpr (Op == reduction::min)
    return second < first ? second : first;
  else if constexpr (Op == reduction::max)
    return first < second ? second : first;
  else if constexpr (Op == reduction::max_location)
    return first.x < second.x ? second : first;
  else if constexpr (Op == reduction::bit_and)
    return T(first & second);
  else if constexpr (Op == reduction::bit_or)
    return T(first | second);
  else
    return T(first ^ second);
}

// An element takes whole words of a box.
template <class T>
inline constexpr u32 parts_of = sizeof(T) <= 4 ? 1 : u32(sizeof(T) / 4);

template <class T>
TND_DEVICE inline void send_element(u64 *box, u64 index, u64 epoch, T value) {
  u32 parts[parts_of<T>] = {};
  TND_COPY_BYTES(parts, &value, sizeof(T));
  for (u32 i = 0; i < parts_of<T>; i++) {
    send_part(box, index * parts_of<T> + i, epoch, parts[i]);
  }
}
template <u32 Count, class T>
TND_DEVICE inline status receive_elements(
    u64 *box, u64 first, u64 stride, u64 epoch, T (&values)[Count]) {
  u32 parts[Count * parts_of<T>];
  TND_TRY(receive_parts<parts_of<T>>(box, first, stride, epoch, parts));
  for (u32 k = 0; k < Count; k++) {
    TND_COPY_BYTES(values + k, parts + k * parts_of<T>, sizeof(T));
  }
  return status::ok;
}

// A thread's elements of a reduction by boxes, at `first` and at steps of `stride`.
template <class T>
struct boxed_elements {
  T *target;
  const T *source;
  u64 first, stride;
};

template <u32 Count, class T>
TND_DEVICE inline void load_elements(const boxed_elements<T> &elements, T (&values)[Count]) {
  for (u32 k = 0; k < Count; k++)
    values[k] = elements.source[elements.first + k * elements.stride];
}

template <u32 Count, class T>
TND_DEVICE inline void send_elements(const member_view &self, const boxed_elements<T> &elements) {
  T values[Count];
  load_elements(elements, values);
  TND_NO_UNROLL
  for (int step = 1; step < self.team.count; step++) {
    u64 *const box = own_box_at(self, member_after(self, step));
    for (u32 k = 0; k < Count; k++) {
      send_element(box, elements.first + k * elements.stride, self.epoch, values[k]);
    }
  }
}

template <reduction Op, u32 Count, class T>
TND_DEVICE inline status combine_elements(const member_view &self,
                                          const boxed_elements<T> &elements) {
  T totals[Count] = {};
  TND_NO_UNROLL
  for (int member = 0; member < self.team.count; member++) {
    T values[Count];
    if (member == self.team.me)
      load_elements(elements, values);
    else
      TND_TRY(receive_elements(
          box_of(self, member), elements.first, elements.stride, self.epoch, values));
    for (u32 k = 0; k < Count; k++) {
      totals[k] = member == 0 ? values[k] : combine<Op>(totals[k], values[k]);
    }
  }
  for (u32 k = 0; k < Count; k++) {
    elements.target[elements.first + k * elements.stride] = totals[k];
  }
  return status::ok;
}

// Elements that a thread has in flight at once.
template <class T>
inline constexpr u32 element_batch = parts_of<T> < box_batch / 2 ? box_batch / 2 / parts_of<T> : 1;

template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_boxed(
    Group group, const member_view &self, T *target, const T *source, u64 element_count) {
  u64 const stride = group.size(), batch = element_batch<T>;
  boxed_elements<T> elements{target, source, group.rank(), stride};
  TND_NO_UNROLL
  for (; elements.first + (batch - 1) * stride < element_count; elements.first += batch * stride)
    send_elements<element_batch<T>>(self, elements);
  TND_NO_UNROLL
  for (; elements.first < element_count; elements.first += stride)
    send_elements<1>(self, elements);
  elements.first = group.rank();
  TND_NO_UNROLL
  for (; elements.first + (batch - 1) * stride < element_count; elements.first += batch * stride) {
    status const code = combine_elements<Op, element_batch<T>>(self, elements);
    if (code != status::ok)
      return code;
  }
  TND_NO_UNROLL
  for (; elements.first < element_count; elements.first += stride) {
    status const code = combine_elements<Op, 1>(self, elements);
    if (code != status::ok)
      return code;
  }
  return status::ok;
}

template <class T>
struct alignas(16) pack {
  T values[16 / sizeof(T)];
};

// Combine the elements of type T that a value of type E holds. The first value replaces the total.
template <reduction Op, class T, class E>
TND_DEVICE inline void combine_values(E &totals, const E &values, bool is_first) {
  T *const total = reinterpret_cast<T *>(&totals);
  const T *const value = reinterpret_cast<const T *>(&values);
  for (u32 j = 0; j < u32(sizeof(E) / sizeof(T)); j++) {
    total[j] = is_first ? value[j] : combine<Op>(total[j], value[j]);
  }
}

// Elements that a thread loads before it combines them.
inline constexpr u32 reduce_unroll = 4;

// Store a thread's elements: `first` and those at steps of the group's size, before `end`.
template <class E, class Group>
TND_DEVICE inline void store_elements(
    Group group, E *target, const E (&values)[reduce_unroll], u64 first, u64 end) {
  for (u32 k = 0; k < reduce_unroll; k++)
    if (first + u64(k) * group.size() < end)
      target[first + u64(k) * group.size()] = values[k];
}

// Reduce elements of type E, a T or a pack of them, from all sources to all targets.
template <reduction Op, class E, class T, class Group>
TND_DEVICE inline void reduce_elements(
    Group group, const member_view &self, T *target, const T *source, u64 begin, u64 end) {
  int const count = self.team.count;
  auto const address_at = [&](const T *addr, int member) {
    return reinterpret_cast<E *>(word_of(addr) + distance_to(self.world(member)));
  };
  constexpr u32 unroll = reduce_unroll;
  for (u64 i = begin + group.rank(); i < end; i += u64(group.size()) * unroll) {
    E totals[unroll] = {};
    for (int member = 0; member < count; member++) {
      const E *const input = address_at(source, member);
      E values[unroll] = {};
      for (u32 k = 0; k < unroll; k++)
        if (i + u64(k) * group.size() < end)
          values[k] = input[i + u64(k) * group.size()];
      for (u32 k = 0; k < unroll; k++) {
        combine_values<Op, T>(totals[k], values[k], member == 0);
      }
    }
    for (int member = 0; member < count; member++) {
      store_elements(group, address_at(target, member), totals, i, end);
    }
  }
}

// Elements from `begin`, which is a multiple of a pack, to `end`. They are reduced in packs if they
// are aligned.
struct element_range {
  u64 begin, end;
};
template <class T>
inline constexpr u64 pack_count = 16 / sizeof(T);

// A member's share of `element_count`: whole packs, except at the end.
template <class T>
TND_DEVICE inline element_range elements_of_member(const member_view &self, u64 element_count) {
  u64 const part =
      (element_count / u64(self.team.count) + pack_count<T>) / pack_count<T> * pack_count<T>;
  u64 const begin =
      part * u64(self.team.me) < element_count ? part * u64(self.team.me) : element_count;
  return {begin, element_count - begin < part ? element_count : begin + part};
}

template <reduction Op, class Group, class T>
TND_DEVICE inline void reduce_range(
    Group group, const member_view &self, T *target, const T *source, element_range range) {
  constexpr u64 width = pack_count<T>;
  bool const is_aligned = ((word_of(target) | word_of(source)) & 15) == 0;
  u64 const packed_end =
      is_aligned && range.end > range.begin ? range.end / width * width : range.begin;
  if (is_aligned)
    reduce_elements<Op, pack<T>>(
        group, self, target, source, range.begin / width, packed_end / width);
  reduce_elements<Op, T>(group, self, target, source, packed_end, range.end);
}

// Each member reduces a share of all members' elements, and puts the result to all.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_parts(
    Group group, member_view &self, T *target, const T *source, u64 element_count) {
  self.epoch = next_epoch(self);
  group.sync();
  status const code = meet(group, self, site::reduce);  // the sources are ready
  self.epoch++;
  self.is_settled = false;
  if (code == status::ok)
    reduce_range<Op>(group, self, target, source, elements_of_member<T>(self, element_count));
  return end_puts_and_meet(group, self, code, site::reduce);
}

// Reduce the elements that all members have put into this PE's boxes.
template <reduction Op, class Group, class T>
TND_DEVICE inline void reduce_boxes(Group group,
                                    const member_view &self,
                                    T *target,
                                    u64 element_count) {
  for (u64 i = group.rank(); i < element_count; i += group.size()) {
    T total = reinterpret_cast<const T *>(box_of(self, 0))[i];
    for (int member = 1; member < self.team.count; member++) {
      total = combine<Op>(total, reinterpret_cast<const T *>(box_of(self, member))[i]);
    }
    target[i] = total;
  }
}

// For teams with an unmapped member: send as many elements at a time as a box holds, unreduced.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_unmapped(
    Group group, member_view &self, T *target, const T *source, u64 element_count) {
  self.is_settled = false;  // stores to mapped members precede their arrivals
  u64 const step_max = u64(job_view().box_size) * 2 / sizeof(T);
  for (u64 done = 0; done < element_count;) {
    u64 const step = element_count - done < step_max ? element_count - done : step_max;
    begin(group, self, true);
    u8 *const own_box = reinterpret_cast<u8 *>(box_of(self, self.team.me));
    for (int i = 0; i < self.team.count; i++)
      TND_TRY(put_to(group,
                     self,
                     own_box,
                     reinterpret_cast<const u8 *>(source + done),
                     step * sizeof(T),
                     member_after(self, i)));
    TND_TRY(end_puts(group, self));
    TND_TRY(meet(group, self, site::reduce));
    reduce_boxes<Op>(group, self, target + done, step);
    group.sync();
    done += step;
  }
  return status::ok;
}

template <class Group, class T>
TND_DEVICE inline status find_reduce(
    Group group, u64 team, const T *target, const T *source, u64 element_count, member_view &self) {
  if (!find_team(team, self))
    return failed(group, status::invalid, site::reduce, nullptr, job_view().me);
  u64 const size = element_count * sizeof(T);
  if (element_count > job_view().heap_size || !is_symmetric_part(target, size) ||
      !is_symmetric_part(source, size))
    return failed(group, status::range, site::reduce, target, job_view().me);
  return status::ok;
}

// Reduce all members' sources element by element, in all members. Target and source may be the
// same. `is_settled`: the source was not written by this kernel.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce(
    Group group, u64 team, T *target, const T *source, u64 element_count, bool is_settled = false) {
  member_view self;
  TND_TRY(find_reduce(group, team, target, source, element_count, self));
  self.is_settled = is_settled;
  group.sync();
  if (self.team.has_unmapped != 0)
    return reduce_unmapped<Op>(group, self, target, source, element_count);
  if (element_count * parts_of<T> * 4 > job_view().box_size)
    return reduce_parts<Op>(group, self, target, source, element_count);
  TND_TRY(begin_boxed(group, self, true, site::reduce));
  status const code = reduce_boxed<Op>(group, self, target, source, element_count);
  return agree(group, code, site::reduce);
}

}  // namespace tanada::shmem::device
