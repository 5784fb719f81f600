// tanada/device/detail/shmem/calls/atomics.hpp: updates of one word of a PE, and signals. Not for
// direct inclusion.
#pragma once

#include "../../simt/lane.hpp"
#include "transfer.hpp"

namespace tanada::shmem::device {

// What was there, if that is asked for. Relaxed: fence and quiet order.
//
// Where all lanes of a warp add the same to the same word, ptxas has one lane add for all and gives
// the answers out by shuffles, for which each call waits. The lanes' own fetch-adds are faster: on
// an H200 for one lane by a tenth, for 32 by half. So what is added looks as if it differed.
template <update_kind Kind, bool IsFetched, class T>
TND_DEVICE inline T update_at(T *target, T operand, T compare) {
  using word = word_for<T>;
  simt::system_atomic<word> const at(*reinterpret_cast<word *>(target));
  word const with = simt::to_word<word>(operand);
  word before{};
  if constexpr (Kind == update_kind::add) {
    if constexpr (IsFetched)
      before =
          simt::fetch_add_global(at.addr, word(with + simt::lane_register() / simt::warp_size));
    else
      simt::add_global(at.addr, with);
  } else if constexpr (Kind == update_kind::bit_and) {
    before = at.fetch_and_relaxed(with);
  } else if constexpr (Kind == update_kind::bit_or) {
    before = at.fetch_or_relaxed(with);
  } else if constexpr (Kind == update_kind::bit_xor) {
    before = at.fetch_xor_relaxed(with);
  } else if constexpr (Kind == update_kind::swap) {
    before = at.exchange_relaxed(with);
  } else if constexpr (Kind == update_kind::compare_swap) {
    before = simt::to_word<word>(compare);
    (void)at.compare_exchange_relaxed(before, with);
  } else {
    before = at.load_relaxed();
  }
  return simt::from_word<T>(before);
}

// Of a word that is not at hand, as update(): one that is far, one of a PE behind those of the
// view, and none.
template <update_kind Kind, class T, bool IsFetched>
TND_DEVICE_CALL inline T update_elsewhere(u64 context, T *target, T operand, T compare, int pe) {
  place to;
  status const code = find_word(context, target, pe, to);
  if (code != status::ok) {
    (void)failed(this_thread{}, code, site::atomic, target, pe);
    return T{};
  }
  if (!to.is_far())
    return update_at<Kind, IsFetched>(to.of(target), operand, compare);
  u64 before = 0;
  using word = word_for<T>;
  (void)far_update(Kind, target, simt::to_word<word>(operand), simt::to_word<word>(compare),
                   sizeof(T), to.pe, &before);
  return simt::from_word<T>(word(before));
}

// What was there; zero where it cannot be had, and where it is not asked for.
template <update_kind Kind, class T, bool IsFetched = true>
TND_DEVICE inline T update(u64 context, T *target, T operand, T compare, int pe) {
  u64 distance;
  if (__builtin_expect(find_near_word(context, target, pe, distance), 1))
    return update_at<Kind, IsFetched>(at_distance(target, distance), operand, compare);
  return update_elsewhere<Kind, T, IsFetched>(context, target, operand, compare, pe);
}

template <class T>
TND_DEVICE_CALL inline void set_elsewhere(u64 context, T *target, T value, int pe) {
  place to;
  status const code = find_word(context, target, pe, to);
  if (code != status::ok)
    return (void)failed(this_thread{}, code, site::atomic, target, pe);
  if (!to.is_far())
    return store_value(to.of(target), value);
  (void)far_update(update_kind::swap, target, simt::to_word<word_for<T>>(value), 0, sizeof(T),
                   to.pe, nullptr);
}

// A store to another's memory needs no answer.
template <class T>
TND_DEVICE inline void set(u64 context, T *target, T value, int pe) {
  u64 distance;
  if (__builtin_expect(find_near_word(context, target, pe, distance), 1))
    return store_value(at_distance(target, distance), value);
  set_elsewhere(context, target, value, pe);
}

// ---- signals

TND_DEVICE inline void signal_at(u64 *signal, u64 value, bool is_added) {
  if (is_added)
    simt::add_global(signal, value);
  else
    simt::system_atomic<u64>(*signal).store_relaxed(value);
}

TND_DEVICE_CALL inline status put_signal_elsewhere(u64 context, u64 *signal, u64 value,
                                                   bool is_added, int pe) {
  place to;
  status const code = find_word(context, signal, pe, to);
  if (code != status::ok)
    return failed(this_thread{}, code, site::signal, signal, pe);
  if (to.is_far())
    return far_update(is_added ? update_kind::add : update_kind::swap, signal, value, 0, 8, to.pe,
                      nullptr);
  signal_at(to.of(signal), value, is_added);
  return status::ok;
}

TND_DEVICE inline status put_signal_alone(u64 context, u64 *signal, u64 value, bool is_added,
                                          int pe) {
  u64 distance;
  if (!__builtin_expect(find_near_word(context, signal, pe, distance), 1))
    return put_signal_elsewhere(context, signal, value, is_added, pe);
  signal_at(at_distance(signal, distance), value, is_added);
  return status::ok;
}

// Who sees the signal sees the data: one fence between, by one thread for all of the group.
template <ends Ends, class Group>
TND_DEVICE inline status put_signal(Group group, u64 context, void *target, const void *source,
                                    u64 size, u64 *signal, u64 value, int operation, int pe) {
  place to;
  status code = find(context, target, size, pe, to);
  if (code == status::ok && word_of(signal) % 8 != 0)
    code = status::fault;
  if (code == status::ok && !is_symmetric(signal, 8))
    code = status::range;
  if (code == status::ok && u32(operation) > 1)
    code = status::invalid;
  if (code != status::ok)
    return failed(group, code, site::put_signal, target, pe);
  bool const is_added = operation == 1;
  if (to.is_far())
    return far_put_signal(group, target, source, size, {signal, value, is_added}, to.pe);
  group.sync();
  if (size != 0) {
    copy_out(group, to.of(target), source, size);
    group.sync();
  }
  if (group.rank() == 0) {
    if (size != 0)
      simt::fence_stores();
    signal_at(to.of(signal), value, is_added);
  }
  return status::ok;
}

}  // namespace tanada::shmem::device
