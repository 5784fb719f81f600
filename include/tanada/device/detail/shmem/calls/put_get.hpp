// tanada/device/detail/shmem/calls/put_get.hpp: put and get. Not for direct inclusion.
#pragma once

#include "unmapped.hpp"

namespace tanada::shmem::device {

// at_once: the source, or the received data, belong to the group when the call returns. later:
// after a quiet.
enum class ends : u32 { at_once, later };

template <u32 Size>
struct word_type;
template <>
struct word_type<4> {
  using type = u32;
};
template <>
struct word_type<8> {
  using type = u64;
};
template <class T>
using word_for = typename word_type<u32(sizeof(T))>::type;

// Values of 4 and 8 bytes are stored as a whole, because other threads may read them concurrently.
// For other sizes, each byte is whole.
template <class T>
TND_DEVICE inline void store_value(T *target, T value) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    using word = word_for<T>;
    simt::system_atomic<word>(*reinterpret_cast<word *>(target))
        .store_relaxed(simt::to_word<word>(value));
  } else if constexpr (sizeof(T) == 1) {
    *reinterpret_cast<volatile u8 *>(target) = simt::to_word<u8>(value);
  } else if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<volatile u16 *>(target) = simt::to_word<u16>(value);
  } else {
    TND_COPY_BYTES(target, &value, sizeof(T));
  }
}

template <class T>
TND_DEVICE inline T load_value(const T *source) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    using word = word_for<T>;
    return simt::from_word<T>(
        simt::system_atomic<word>(*reinterpret_cast<word *>(const_cast<T *>(source)))
            .load_relaxed());
  } else if constexpr (sizeof(T) == 1) {
    return simt::from_word<T>(u8(*reinterpret_cast<const volatile u8 *>(source)));
  } else if constexpr (sizeof(T) == 2) {
    return simt::from_word<T>(u16(*reinterpret_cast<const volatile u16 *>(source)));
  } else {
    T value;
    simt::copy_from_host(this_thread{}, &value, source, sizeof(T));
    return value;
  }
}

// One word for each thread if that is the whole copy. A put then consists of one store.
template <class Group>
TND_DEVICE inline void copy_out(Group group, void *target, const void *source, u64 size) {
  u64 const mixed = word_of(target) | word_of(source) | size;
  if ((mixed & 7) == 0 && size <= u64(group.size()) * 8) {
    if (u64(group.rank()) * 8 < size)
      static_cast<u64 *>(target)[group.rank()] = static_cast<const u64 *>(source)[group.rank()];
  } else {
    simt::copy_out(group, target, source, size);
  }
}

// Load the current values: they are not taken from a cache of this multiprocessor.
template <class Group>
TND_DEVICE inline void copy_in(Group group, void *target, const void *source, u64 size) {
  u64 const mixed = word_of(target) | word_of(source) | size;
  if ((mixed & 7) == 0 && size <= u64(group.size()) * 8) {
    if (u64(group.rank()) * 8 < size)
      static_cast<u64 *>(target)[group.rank()] =
          load_value(static_cast<const u64 *>(source) + group.rank());
  } else {
    simt::copy_from_host(group, target, source, size);
  }
}

template <ends Ends, class Group>
TND_DEVICE inline status put(
    Group group, u64 context, void *target, const void *source, u64 size, int pe) {
  pe_address remote;
  status const code = find(context, target, size, pe, remote);
  if (code != status::ok)
    return failed(group, code, site::put, target, pe);
  if (remote.is_unmapped())
    return host_put(group, target, source, size, remote.pe);
  group.sync();
  copy_out(group, remote.translate(target), source, size);
  if constexpr (Ends == ends::at_once)
    group.sync();
  return status::ok;
}

template <ends Ends, class Group>
TND_DEVICE inline status get(
    Group group, u64 context, void *target, const void *source, u64 size, int pe) {
  pe_address remote;
  status const code = find(context, source, size, pe, remote);
  if (code != status::ok)
    return failed(group, code, site::get, source, pe);
  if (remote.is_unmapped())
    return host_get(group, target, source, size, remote.pe);
  group.sync();
  copy_in(group, target, remote.translate(source), size);
  if constexpr (Ends == ends::at_once)
    group.sync();
  return status::ok;
}

// ---- one element

template <class T>
inline constexpr bool is_word = sizeof(T) == 4 || sizeof(T) == 8;

template <class T>
TND_DEVICE_CALL inline status put_value_slow(u64 context, T *target, T value, int pe) {
  pe_address remote;
  status const code = find(context, target, sizeof(T), pe, remote);
  if (code != status::ok)
    return failed(this_thread{}, code, site::p, target, pe);
  if (remote.is_unmapped())
    return host_put(this_thread{}, target, &value, sizeof(T), remote.pe);
  if (word_of(target) % alignof(T) != 0)
    return failed(this_thread{}, status::fault, site::p, target, pe);
  store_value(remote.translate(target), value);
  return status::ok;
}

template <class T>
TND_DEVICE inline status put_value(u64 context, T *target, T value, int pe) {
  u64 distance;
  if constexpr (is_word<T>) {
    if (__builtin_expect(find_mapped_word(context, target, pe, distance), 1)) {
      store_value(at_distance(target, distance), value);
      return status::ok;
    }
  }
  return put_value_slow(context, target, value, pe);
}

// Returns zero where the value cannot be read.
template <class T>
TND_DEVICE_CALL inline T get_value_slow(u64 context, const T *source, int pe) {
  T value{};
  pe_address remote;
  status code = find(context, source, sizeof(T), pe, remote);
  if (code == status::ok && word_of(source) % alignof(T) != 0)
    code = status::fault;
  if (code != status::ok) {
    (void)failed(this_thread{}, code, site::g, source, pe);
  } else if (!remote.is_unmapped()) {
    value = load_value(remote.translate(source));
  } else {
    for (u32 done = 0; done < sizeof(T) && code == status::ok; done += 8) {
      u32 const size = sizeof(T) - done < 8 ? u32(sizeof(T)) - done : 8;
      u64 word = 0;
      code = call_host({op::get_word, u32(remote.pe), size, {word_of(source) + done, 0, 0, 0, 0}},
                       nullptr,
                       &word);
      if (code == status::ok)
        __builtin_memcpy(reinterpret_cast<u8 *>(&value) + done, &word, size);
      else
        record_fault(code, site::g, source, remote.pe);
    }
  }
  return value;
}

template <class T>
TND_DEVICE inline T get_value(u64 context, const T *source, int pe) {
  u64 distance;
  if constexpr (is_word<T>) {
    if (__builtin_expect(find_mapped_word(context, source, pe, distance), 1))
      return load_value(at_distance(source, distance));
  }
  return get_value_slow(context, source, pe);
}

// ---- rows of elements

// Strides: elements from one to the next.
struct strides {
  long long target, source;
};

// True if the first and the last of `count` elements are in the heap.
template <class T>
TND_DEVICE inline bool rows_are_symmetric(const T *first, long long stride, u64 count) {
  if (count == 0)
    return true;
  if (count > job_view().heap_size)
    return false;
  const T *const last =
      reinterpret_cast<const T *>(word_of(first) + u64(stride) * (count - 1) * sizeof(T));
  u64 const reach = u64(stride < 0 ? -stride : stride);
  if (reach != 0 && (count - 1) > job_view().heap_size / reach)
    return false;
  return is_symmetric(first, sizeof(T)) && is_symmetric(last, sizeof(T));
}

template <class T>
TND_DEVICE inline bool rows_are_accessible(const T *first, long long stride, u64 count, int pe) {
  return rows_are_symmetric(first, stride, count) ||
         (pe == job_view().me && job_view().takes_private != 0);
}

template <class Group, class T>
TND_DEVICE inline status put_rows(
    Group group, u64 context, T *target, const T *source, strides stride, u64 count, int pe) {
  pe_address remote;
  status code = find(context, target, 0, pe, remote);
  if (code == status::ok && !rows_are_accessible(target, stride.target, count, remote.pe))
    code = status::range;
  if (code != status::ok)
    return failed(group, code, site::iput, target, pe);
  if (remote.is_unmapped())
    return host_put_rows(
        group, target, source, {count, sizeof(T), stride.target, stride.source}, remote.pe);
  group.sync();
  T *const output = remote.translate(target);
  for (u64 i = group.rank(); i < count; i += group.size()) {
    store_value(output + static_cast<long long>(i) * stride.target,
                source[static_cast<long long>(i) * stride.source]);
  }
  group.sync();
  return status::ok;
}

template <class Group, class T>
TND_DEVICE inline status get_rows(
    Group group, u64 context, T *target, const T *source, strides stride, u64 count, int pe) {
  pe_address remote;
  status code = find(context, source, 0, pe, remote);
  if (code == status::ok && !rows_are_accessible(source, stride.source, count, remote.pe))
    code = status::range;
  if (code != status::ok)
    return failed(group, code, site::iget, source, pe);
  if (remote.is_unmapped())
    return host_get_rows(
        group, target, source, {count, sizeof(T), stride.target, stride.source}, remote.pe);
  group.sync();
  const T *const input = remote.translate(source);
  for (u64 i = group.rank(); i < count; i += group.size())
    target[static_cast<long long>(i) * stride.target] =
        load_value(input + static_cast<long long>(i) * stride.source);
  group.sync();
  return status::ok;
}

}  // namespace tanada::shmem::device
