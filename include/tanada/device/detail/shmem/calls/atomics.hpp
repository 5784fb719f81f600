// tanada/device/detail/shmem/calls/atomics.hpp: updates of one word of a PE, and signals. Not for
// direct inclusion.
#pragma once

#include "../../simt/lane.hpp"
#include "put_get.hpp"

namespace tanada::shmem::device {

// Returns the old value if it is requested. Relaxed: fence and quiet order it.
//
// Where all lanes of a warp add the same value to the same word, ptxas lets one lane add for all
// and distributes the results by shuffles, for which each call waits. The lanes' own fetch-adds are
// faster: on an H200 for one lane by a tenth, for 32 by half. So the operand is made to look
// different in each lane.
template <update_kind Kind, bool IsFetched, class T>
TND_DEVICE inline T update_at(T *target, T operand, T compare) {
  using word = word_for<T>;
  simt::system_atomic<word> const word_ref(*reinterpret_cast<word *>(target));
  word const operand_word = simt::to_word<word>(operand);
  word before{};
  if constexpr (Kind == update_kind::add) {
    if constexpr (IsFetched)
      before = simt::fetch_add_global(word_ref.addr,
                                      word(operand_word + simt::lane_register() / simt::warp_size));
    else
      simt::add_global(word_ref.addr, operand_word);
  } else if constexpr (Kind == update_kind::bit_and) {
    before = word_ref.fetch_and_relaxed(operand_word);
  } else if constexpr (Kind == update_kind::bit_or) {
    before = word_ref.fetch_or_relaxed(operand_word);
  } else if constexpr (Kind == update_kind::bit_xor) {
    before = word_ref.fetch_xor_relaxed(operand_word);
  } else if constexpr (Kind == update_kind::swap) {
    before = word_ref.exchange_relaxed(operand_word);
  } else if constexpr (Kind == update_kind::compare_swap) {
    before = simt::to_word<word>(compare);
    (void)word_ref.compare_exchange_relaxed(before, operand_word);
  } else {
    before = word_ref.load_relaxed();
  }
  return simt::from_word<T>(before);
}

// As update(), for a word off the fast path: unmapped, or of a PE that is not in the view, or
// invalid.
template <update_kind Kind, class T, bool IsFetched>
TND_DEVICE_CALL inline T update_slow(u64 context, T *target, T operand, T compare, int pe) {
  pe_address remote;
  status const code = find_word(context, target, pe, remote);
  if (code != status::ok) {
    (void)failed(this_thread{}, code, site::atomic, target, pe);
    return T{};
  }
  if (!remote.is_unmapped())
    return update_at<Kind, IsFetched>(remote.translate(target), operand, compare);
  u64 before = 0;
  using word = word_for<T>;
  (void)host_update(Kind,
                    target,
                    simt::to_word<word>(operand),
                    simt::to_word<word>(compare),
                    sizeof(T),
                    remote.pe,
                    IsFetched ? &before : nullptr);
  return simt::from_word<T>(word(before));
}

// Returns the old value; zero where it cannot be read or is not requested.
template <update_kind Kind, class T, bool IsFetched = true>
TND_DEVICE inline T update(u64 context, T *target, T operand, T compare, int pe) {
  u64 distance;
  if (__builtin_expect(find_mapped_word(context, target, pe, distance), 1))
    return update_at<Kind, IsFetched>(at_distance(target, distance), operand, compare);
  return update_slow<Kind, T, IsFetched>(context, target, operand, compare, pe);
}

template <class T>
TND_DEVICE_CALL inline void set_slow(u64 context, T *target, T value, int pe) {
  pe_address remote;
  status const code = find_word(context, target, pe, remote);
  if (code != status::ok)
    return (void)failed(this_thread{}, code, site::atomic, target, pe);
  if (!remote.is_unmapped())
    return store_value(remote.translate(target), value);
  (void)host_update(update_kind::swap,
                    target,
                    simt::to_word<word_for<T>>(value),
                    0,
                    sizeof(T),
                    remote.pe,
                    nullptr);
}

// A store to another PE's memory needs no answer.
template <class T>
TND_DEVICE inline void set(u64 context, T *target, T value, int pe) {
  u64 distance;
  if (__builtin_expect(find_mapped_word(context, target, pe, distance), 1))
    return store_value(at_distance(target, distance), value);
  set_slow(context, target, value, pe);
}

// ---- signals

TND_DEVICE inline void signal_at(u64 *signal, u64 value, bool is_added) {
  if (is_added)
    simt::add_global(signal, value);
  else
    simt::system_atomic<u64>(*signal).store_relaxed(value);
}

TND_DEVICE_CALL inline status put_signal_slow(
    u64 context, u64 *signal, u64 value, bool is_added, int pe) {
  pe_address remote;
  status const code = find_word(context, signal, pe, remote);
  if (code != status::ok)
    return failed(this_thread{}, code, site::signal, signal, pe);
  if (remote.is_unmapped())
    return host_update(
        is_added ? update_kind::add : update_kind::swap, signal, value, 0, 8, remote.pe, nullptr);
  signal_at(remote.translate(signal), value, is_added);
  return status::ok;
}

TND_DEVICE inline status put_signal_only(
    u64 context, u64 *signal, u64 value, bool is_added, int pe) {
  u64 distance;
  if (!__builtin_expect(find_mapped_word(context, signal, pe, distance), 1))
    return put_signal_slow(context, signal, value, is_added, pe);
  signal_at(at_distance(signal, distance), value, is_added);
  return status::ok;
}

// A PE that sees the signal sees the data. One thread issues the fence between them for the whole
// group.
template <ends Ends, class Group>
TND_DEVICE inline status put_signal(Group group,
                                    u64 context,
                                    void *target,
                                    const void *source,
                                    u64 size,
                                    u64 *signal,
                                    u64 value,
                                    int operation,
                                    int pe) {
  pe_address remote;
  status code = find(context, target, size, pe, remote);
  if (code == status::ok && word_of(signal) % 8 != 0)
    code = status::fault;
  if (code == status::ok && !is_accessible(signal, 8, remote.pe))
    code = status::range;
  if (code == status::ok && u32(operation) > 1)
    code = status::invalid;
  if (code != status::ok)
    return failed(group, code, site::put_signal, target, pe);
  bool const is_added = operation == 1;
  if (remote.is_unmapped())
    return host_put_signal(group, target, source, size, {signal, value, is_added}, remote.pe);
  group.sync();
  if (size != 0) {
    copy_out(group, remote.translate(target), source, size);
    group.sync();
  }
  if (group.rank() == 0) {
    if (size != 0)
      simt::fence_stores();
    signal_at(remote.translate(signal), value, is_added);
  }
  return status::ok;
}

}  // namespace tanada::shmem::device
