// tanada/device/detail/shmem/calls/reduce.hpp: reductions. In the order of the members' numbers, so
// that all PEs have the same. Not for direct inclusion.
#pragma once

#include "collect.hpp"

namespace tanada::shmem::device {

enum class reduction : u32 { sum, prod, min, max, bit_and, bit_or, bit_xor };

template <reduction Op, class T>
TND_DEVICE inline T combine(T one, T other) {
  if constexpr (Op == reduction::sum)
    return T(one + other);
  else if constexpr (Op == reduction::prod)
    return T(one * other);
  else if constexpr (Op == reduction::min)
    return other < one ? other : one;
  else if constexpr (Op == reduction::max)
    return one < other ? other : one;
  else if constexpr (Op == reduction::bit_and)
    return T(one & other);
  else if constexpr (Op == reduction::bit_or)
    return T(one | other);
  else
    return T(one ^ other);
}

// An element takes whole words of a box.
template <class T>
inline constexpr u32 parts_of = sizeof(T) <= 4 ? 1 : u32(sizeof(T) / 4);

template <class T>
TND_DEVICE inline void send_element(u64 *box, u64 index, u64 epoch, T value) {
  u32 parts[parts_of<T>] = {};
  TND_COPY_BYTES(parts, &value, sizeof(T));
  for (u32 i = 0; i < parts_of<T>; i++)
    send_part(box, index * parts_of<T> + i, epoch, parts[i]);
}
template <class T>
TND_DEVICE inline status receive_element(u64 *box, u64 index, u64 epoch, T &value) {
  u32 parts[parts_of<T>];
  for (u32 i = 0; i < parts_of<T>; i++)
    TND_TRY(receive_part(box, index * parts_of<T> + i, epoch, parts[i]));
  TND_COPY_BYTES(&value, parts, sizeof(T));
  return status::ok;
}

template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_boxed(Group group, const member_view &in, T *target,
                                      const T *source, u64 element_count) {
  int const count = in.team.count, me = in.team.me;
  for (int step = 1; step < count; step++) {
    u64 *const box = own_box_at(in, member_after(in, step));
    for (u64 i = group.rank(); i < element_count; i += group.size())
      send_element(box, i, in.epoch, source[i]);
  }
  for (u64 i = group.rank(); i < element_count; i += group.size()) {
    T total{};
    for (int member = 0; member < count; member++) {
      T value = source[i];
      if (member != me)
        TND_TRY(receive_element(box_of(in, member), i, in.epoch, value));
      total = member == 0 ? value : combine<Op>(total, value);
    }
    target[i] = total;
  }
  return status::ok;
}

template <class T>
struct alignas(16) pack {
  T values[16 / sizeof(T)];
};

// Elements of type E, a T or a pack of them: those of all sources, to all targets.
template <reduction Op, class E, class T, class Group>
TND_DEVICE inline void reduce_elements(Group group, const member_view &in, T *target,
                                       const T *source, u64 begin, u64 end) {
  int const count = in.team.count;
  constexpr u32 width = sizeof(E) / sizeof(T);
  auto const at = [&](const T *addr, int member) {
    return reinterpret_cast<E *>(word_of(addr) + distance_to(in.world(member)));
  };
  constexpr u32 unroll = 4;
  for (u64 i = begin + group.rank(); i < end; i += u64(group.size()) * unroll) {
    E totals[unroll] = {};
    for (int member = 0; member < count; member++) {
      const E *const from = at(source, member);
      E values[unroll] = {};
      for (u32 k = 0; k < unroll; k++)
        if (i + u64(k) * group.size() < end)
          values[k] = from[i + u64(k) * group.size()];
      for (u32 k = 0; k < unroll; k++) {
        T *const total = reinterpret_cast<T *>(&totals[k]);
        const T *const value = reinterpret_cast<const T *>(&values[k]);
        for (u32 j = 0; j < width; j++)
          total[j] = member == 0 ? value[j] : combine<Op>(total[j], value[j]);
      }
    }
    for (int member = 0; member < count; member++) {
      E *const to = at(target, member);
      for (u32 k = 0; k < unroll; k++)
        if (i + u64(k) * group.size() < end)
          to[i + u64(k) * group.size()] = totals[k];
    }
  }
}

// Elements from `begin`, which is a multiple of a pack's, to `end`: packs of them where they lie
// so.
struct element_range {
  u64 begin, end;
};
template <class T>
inline constexpr u64 pack_count = 16 / sizeof(T);

// What a member reduces of `element_count`: whole packs, but for the end.
template <class T>
TND_DEVICE inline element_range elements_of_member(const member_view &in, u64 element_count) {
  u64 const part =
      (element_count / u64(in.team.count) + pack_count<T>) / pack_count<T> * pack_count<T>;
  u64 const begin = part * u64(in.team.me) < element_count ? part * u64(in.team.me) : element_count;
  return {begin, element_count - begin < part ? element_count : begin + part};
}

template <reduction Op, class Group, class T>
TND_DEVICE inline void reduce_range(Group group, const member_view &in, T *target, const T *source,
                                    element_range of) {
  constexpr u64 width = pack_count<T>;
  bool const is_aligned = ((word_of(target) | word_of(source)) & 15) == 0;
  u64 const packed_end = is_aligned && of.end > of.begin ? of.end / width * width : of.begin;
  if (is_aligned)
    reduce_elements<Op, pack<T>>(group, in, target, source, of.begin / width, packed_end / width);
  reduce_elements<Op, T>(group, in, target, source, packed_end, of.end);
}

// Each member reduces a part of what all have, and gives it to all.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_parts(Group group, member_view &in, T *target, const T *source,
                                      u64 element_count) {
  in.epoch = next_epoch(in);
  group.sync();
  status const code = meet(group, in, site::reduce);  // the sources are ready
  in.epoch++;
  in.is_settled = false;
  if (code == status::ok)
    reduce_range<Op>(group, in, target, source, elements_of_member<T>(in, element_count));
  return end_puts_and_meet(group, in, code, site::reduce);
}

// Where a member is not reached: as much at a time as a box takes, as it is.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce_far(Group group, member_view &in, T *target, const T *source,
                                    u64 element_count) {
  in.is_settled = false;  // it stores for near members before it tells them
  u64 const step_max = u64(here().box_size) * 2 / sizeof(T);
  for (u64 done = 0; done < element_count;) {
    u64 const step = element_count - done < step_max ? element_count - done : step_max;
    begin(group, in, true);
    u8 *const own = reinterpret_cast<u8 *>(box_of(in, in.team.me));
    for (int i = 0; i < in.team.count; i++)
      TND_TRY(put_to(group, in, own, reinterpret_cast<const u8 *>(source + done), step * sizeof(T),
                     member_after(in, i)));
    TND_TRY(end_puts(group, in));
    TND_TRY(meet(group, in, site::reduce));
    for (u64 i = group.rank(); i < step; i += group.size()) {
      T total = reinterpret_cast<const T *>(box_of(in, 0))[i];
      for (int member = 1; member < in.team.count; member++)
        total = combine<Op>(total, reinterpret_cast<const T *>(box_of(in, member))[i]);
      target[done + i] = total;
    }
    group.sync();
    done += step;
  }
  return status::ok;
}

template <class Group, class T>
TND_DEVICE inline status find_reduce(Group group, u64 team, const T *target, const T *source,
                                     u64 element_count, member_view &in) {
  if (!find_team(team, in))
    return failed(group, status::invalid, site::reduce, nullptr, here().me);
  u64 const size = element_count * sizeof(T);
  if (element_count > here().heap_size || !is_symmetric(target, size) ||
      !is_symmetric(source, size))
    return failed(group, status::range, site::reduce, target, here().me);
  return status::ok;
}

// Element by element of all members' sources, in all members. Target and source may be the same.
// `is_settled`: the source is not of this kernel.
template <reduction Op, class Group, class T>
TND_DEVICE inline status reduce(Group group, u64 team, T *target, const T *source,
                                u64 element_count, bool is_settled = false) {
  member_view in;
  TND_TRY(find_reduce(group, team, target, source, element_count, in));
  in.is_settled = is_settled;
  group.sync();
  if (in.team.has_far != 0)
    return reduce_far<Op>(group, in, target, source, element_count);
  if (element_count * parts_of<T> * 4 > here().box_size)
    return reduce_parts<Op>(group, in, target, source, element_count);
  TND_TRY(begin_boxed(group, in, true, site::reduce));
  status const code = reduce_boxed<Op>(group, in, target, source, element_count);
  return agree(group, code, site::reduce);
}

}  // namespace tanada::shmem::device
