// tanada/device/detail/simt/copy.hpp: copies of bytes by a group. The three kinds differ in which
// other threads may access the bytes meanwhile:
//   copy           none
//   copy_from_host the source is memory of host or device that others may be changing; the caller
//                  checks a version afterwards
//   copy_to_host   the target is host memory that others may be reading under such a check
//   fill_frame     both: from memory that others may be changing to a frame of the device tier
// The shared side is accessed with relaxed atomics (on the device and under TSan), never cached in
// L1.
#pragma once

#include "group.hpp"

namespace tanada::simt {

// Order all accesses before the fence against all accesses after it, for every observer. Used where
// two sides each store and then load what the other stored.
TND_DEVICE inline void fence_system() {
#if TND_ON_DEVICE
  __threadfence_system();
#elif TND_SIMT_CUDA
  // host half of a CUDA translation unit: never called
#elif defined(TND_TSAN)
  static u32 order = 0;
  __atomic_fetch_add(&order, 1u, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// Load a value that does not change while kernels run: the loads may be merged, moved and cached.
template <class T>
TND_DEVICE inline T constant(const T &object) {
#if TND_ON_DEVICE
  static_assert(sizeof(T) % 4 == 0);
  constexpr u32 width = sizeof(T) % 8 == 0 && alignof(T) >= 8 ? 8 : 4;
  T copy;
#  pragma unroll
  for (u32 i = 0; i < sizeof(T) / width; i++) {
    if constexpr (width == 8)
      reinterpret_cast<u64 *>(&copy)[i] = __ldg(reinterpret_cast<const u64 *>(&object) + i);
    else
      reinterpret_cast<u32 *>(&copy)[i] = __ldg(reinterpret_cast<const u32 *>(&object) + i);
  }
  return copy;
#else
  return object;
#endif
}

// As constant(), but the load is issued here, not where its value is needed: loads that precede a
// branch then overlap with those after it.
template <class T>
TND_DEVICE inline T constant_now(const T &object) {
#if TND_ON_DEVICE
  static_assert(sizeof(T) % 4 == 0);
  constexpr u32 width = sizeof(T) % 8 == 0 && alignof(T) >= 8 ? 8 : 4;
  T copy;
#  pragma unroll
  for (u32 i = 0; i < sizeof(T) / width; i++) {
    u64 const addr = __cvta_generic_to_global(&object) + i * width;
    if constexpr (width == 8)
      asm volatile("ld.global.nc.u64 %0, [%1];"
                   : "=l"(reinterpret_cast<u64 *>(&copy)[i])
                   : "l"(addr));
    else
      asm volatile("ld.global.nc.u32 %0, [%1];"
                   : "=r"(reinterpret_cast<u32 *>(&copy)[i])
                   : "l"(addr));
  }
  return copy;
#else
  return object;
#endif
}

// As constant_now(), for an object of 8 bytes at a 16-byte boundary and the one after it: one load,
// which the compiler does not divide to move a part behind a branch.
template <class First, class Second>
TND_DEVICE inline void load_neighbors(const First &first,
                                      const Second &second,
                                      First &first_value,
                                      Second &second_value) {
  static_assert(sizeof(First) == 8 && sizeof(Second) <= 8);
#if TND_ON_DEVICE
  (void)second;
  u64 words[2];
  asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];"
               : "=l"(words[0]), "=l"(words[1])
               : "l"(__cvta_generic_to_global(&first)));
  first_value = from_word<First>(words[0]);
  second_value = from_word<Second>(words[1]);
#else
  first_value = first;
  second_value = second;
#endif
}

// As fence_loads(), among threads of the device. On sm_90 it only empties the multiprocessor's
// cache, and does not wait for stores.
TND_DEVICE inline void fence_device_loads() {
#if TND_ON_DEVICE && __CUDA_ARCH__ >= 900
  asm volatile("fence.acquire.gpu;" ::: "memory");
#elif TND_ON_DEVICE
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#elif !TND_SIMT_CUDA && !defined(TND_TSAN)
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

// Loads before the fence are performed before loads and stores after it.
TND_DEVICE inline void fence_loads() {
#if TND_ON_DEVICE && __CUDA_ARCH__ >= 900
  asm volatile("fence.acquire.sys;" ::: "memory");
#elif TND_ON_DEVICE
  __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
#elif !TND_SIMT_CUDA && !defined(TND_TSAN)
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

// Accesses before the fence are performed before stores after it.
TND_DEVICE inline void fence_stores() {
#if TND_ON_DEVICE
  __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
#elif !TND_SIMT_CUDA && defined(TND_TSAN)
  fence_system();
#elif !TND_SIMT_CUDA
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

// One thread copies bytes of a file from the page cache to `target`: see host::read_cached(). Only
// on the host executor; elsewhere it returns 0.
#if TND_SIMT_CUDA
inline constexpr bool reads_cached_files = false;
TND_DEVICE inline u64 read_cached(int, void *, u64, u64) {
  return 0;
}
#else
inline constexpr bool reads_cached_files = true;
inline u64 read_cached(int descriptor, void *target, u64 size, u64 offset) {
  return host::read_cached(descriptor, target, size, offset);
}
#endif

// The work of fill_frame(). Sizes in bytes; `size` is at most `frame_size`, a multiple of 16 and
// less than 2 GiB.
struct frame_fill {
  u8 *frame;          // aligned to 16 bytes
  u8 *second_target;  // gets the same bytes, aligned likewise; nullptr: none
  const u8 *source;
  u64 size, frame_size;
};

namespace detail {

#if TND_ON_DEVICE

template <u32 Width>
struct word_of;
// Two halves of 8 bytes, each of which is whole.
template <>
struct word_of<16> {
  using type = ulonglong2;
  __device__ static type load(const type *addr) {
    type v;
    asm volatile("ld.relaxed.sys.v2.u64 {%0,%1}, [%2];"
                 : "=l"(v.x), "=l"(v.y)
                 : "l"(addr)
                 : "memory");
    return v;
  }
  __device__ static void store(type *addr, type v) {
    asm volatile("st.relaxed.sys.v2.u64 [%0], {%1,%2};" ::"l"(addr), "l"(v.x), "l"(v.y) : "memory");
  }
};
template <>
struct word_of<8> {
  using type = u64;
  __device__ static u64 load(const u64 *addr) {
    u64 v;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(addr) : "memory");
    return v;
  }
  __device__ static void store(u64 *addr, u64 v) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(addr), "l"(v) : "memory");
  }
};
template <>
struct word_of<4> {
  using type = u32;
  __device__ static u32 load(const u32 *addr) {
    u32 v;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(addr) : "memory");
    return v;
  }
  __device__ static void store(u32 *addr, u32 v) {
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(addr), "r"(v) : "memory");
  }
};
template <>
struct word_of<1> {
  using type = u8;
  __device__ static u8 load(const u8 *addr) {
    u32 v;
    asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(v) : "l"(addr) : "memory");
    return u8(v);
  }
  __device__ static void store(u8 *addr, u8 v) {
    asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(addr), "r"(u32(v)) : "memory");
  }
};

enum class side { neither, source, target };

template <u32 Width, side Shared>
__device__ inline auto load_word(const typename word_of<Width>::type *addr) {
  if constexpr (Shared == side::source)
    return word_of<Width>::load(addr);
  else
    return *addr;
}
template <u32 Width, side Shared>
__device__ inline void store_word(typename word_of<Width>::type *addr,
                                  typename word_of<Width>::type value) {
  if constexpr (Shared == side::target)
    word_of<Width>::store(addr, value);
  else
    *addr = value;
}

template <u32 Width, side Shared, u32 Unroll = Width >= 8 ? 4 : 2>
__device__ inline void copy_words(u32 rank, u32 count, u8 *target, const u8 *source, u64 words) {
  using word = typename word_of<Width>::type;
  word *output = reinterpret_cast<word *>(target) + rank;
  const word *input = reinterpret_cast<const word *>(source) + rank;
  const word *const end = reinterpret_cast<const word *>(source) + words;
  // This many loads are in flight before the first store waits; host memory has a high latency.
  // Pointers advance by additions, which take few registers.
  constexpr u32 unroll = Unroll;
#  pragma unroll 1
  while (input + u64(unroll - 1) * count < end) {
    word values[unroll];
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      values[k] = load_word<Width, Shared>(input + u64(k) * count);
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      store_word<Width, Shared>(output + u64(k) * count, values[k]);
    input += u64(unroll) * count;
    output += u64(unroll) * count;
  }
#  pragma unroll 1
  for (; input < end; input += count, output += count)
    store_word<Width, Shared>(output, load_word<Width, Shared>(input));
}

// Copy whole words of `width` bytes.
template <side Shared>
__device__ inline void copy_words_of(
    u32 width, u32 rank, u32 count, u8 *target, const u8 *source, u64 words) {
  if (width == 16)
    copy_words<16, Shared>(rank, count, target, source, words);
  else if (width == 8)
    copy_words<8, Shared>(rank, count, target, source, words);
  else if (width == 4)
    copy_words<4, Shared>(rank, count, target, source, words);
  else
    copy_words<1, Shared>(rank, count, target, source, words);
}

// As copy_words(), for fewer than 16 bytes.
template <u32 Width, side Shared>
__device__ inline void copy_few_words(u32 rank, u32 count, u8 *target, const u8 *source, u32 size) {
  using word = word_of<Width>;
#  pragma unroll 1
  for (u32 i = rank * Width; i < size; i += count * Width) {
    auto *const output = reinterpret_cast<typename word::type *>(target + i);
    auto const value = word::load(reinterpret_cast<const typename word::type *>(source + i));
    if constexpr (Shared == side::target)
      word::store(output, value);
    else
      *output = value;
  }
}

// A head or a tail. `has_words`: it consists of words of 8 bytes, aligned on both sides.
template <side Shared>
__device__ __noinline__ void copy_end(
    bool has_words, u32 rank, u32 count, u8 *target, const u8 *source, u32 size) {
  if (has_words)
    copy_few_words<8, Shared>(rank, count, target, source, size);
  else
    copy_few_words<1, Shared>(rank, count, target, source, size);
}

// Any alignment: a head and a tail of bytes around words as wide as both sides allow. So an aligned
// word of 8 bytes is never torn by a concurrent writer.
template <side Shared>
__device__ __noinline__ void copy_ragged(
    u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  u64 const skew = (reinterpret_cast<u64>(target) ^ reinterpret_cast<u64>(source)) & 15;
  u32 const shift = skew == 0 ? 4 : skew == 8 ? 3 : (skew & 3) == 0 ? 2 : 0, width = 1u << shift;
  u32 head = (width - (u32(reinterpret_cast<u64>(target)) & (width - 1))) & (width - 1);
  if (head > size)
    head = u32(size);
  // The head may be the whole copy; its end is then not aligned.
  bool const has_words = width >= 8 && ((head | reinterpret_cast<u64>(target)) & 7) == 0;
  copy_end<Shared>(has_words, rank, count, target, source, head);
  target += head;
  source += head;
  size -= head;
  u64 const words = size >> shift, whole = words << shift;
  u32 const rest = u32(size - whole);
  copy_end<Shared>(width >= 8 && rest == 8, rank, count, target + whole, source + whole, rest);
  copy_words_of<Shared>(width, rank, count, target, source, words);
}

template <side Shared>
__device__ __noinline__ void copy_bytes(
    u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  u64 const mixed = reinterpret_cast<u64>(target) | reinterpret_cast<u64>(source) | size;
  if ((mixed & 15) == 0)
    copy_words<16, Shared, 8>(rank, count, target, source, size / 16);
  else
    copy_ragged<Shared>(rank, count, target, source, size);
}

// Both sides and the size are multiples of 16; the source may be changing.
__device__ inline void copy_lines(u32 rank, u32 count, u8 *target, const u8 *source, u32 size) {
  using word = word_of<16>;
  // A warp has a page of 4 KiB in flight at once.
  constexpr u32 unroll = 8;
  u32 const stride = count * 16;
  u32 offset = rank * 16;
#  pragma unroll 1
  for (; offset + (unroll - 1) * stride < size; offset += unroll * stride) {
    ulonglong2 values[unroll];
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      values[k] =
          word::load(reinterpret_cast<const ulonglong2 *>(source + offset + u64(k) * stride));
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      *reinterpret_cast<ulonglong2 *>(target + offset + u64(k) * stride) = values[k];
  }
#  pragma unroll 1
  for (; offset < size; offset += stride)
    *reinterpret_cast<ulonglong2 *>(target + offset) =
        word::load(reinterpret_cast<const ulonglong2 *>(source + offset));
}

// Streaming stores: the target is global memory, usually another device's.
__device__ __noinline__ void copy_out(u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  u64 const mixed = reinterpret_cast<u64>(target) | reinterpret_cast<u64>(source) | size;
  if ((mixed & 15) != 0)
    return copy_ragged<side::neither>(rank, count, target, source, size);
  u64 const words = size / 16;
  ulonglong2 *output = reinterpret_cast<ulonglong2 *>(target) + rank;
  const ulonglong2 *input = reinterpret_cast<const ulonglong2 *>(source) + rank;
  u64 i = rank;
  // Pointers advance by additions, which take few registers: a kernel of blocks of 1,024 threads
  // has 64 registers a thread in all.
  constexpr u32 unroll = 8;
#  pragma unroll 1
  for (; i + u64(unroll - 1) * count < words; i += u64(unroll) * count) {
    ulonglong2 values[unroll];
#  pragma unroll
    for (u32 k = 0; k < unroll; k++, input += count)
      values[k] = *input;
#  pragma unroll
    for (u32 k = 0; k < unroll; k++, output += count) {
      __stcs(output, values[k]);
    }
  }
#  pragma unroll 1
  for (; i < words; i += count, input += count, output += count) {
    __stcs(output, *input);
  }
}

// The bytes of a word of 16 that are in the source, of which `size` bytes are left; zeros after
// them.
__device__ inline ulonglong2 load_part(const u8 *source, u64 size) {
  ulonglong2 value{0, 0};
  if (size == 0)
    return value;
  if ((reinterpret_cast<u64>(source) & 15) != 0) {
#  pragma unroll 1
    for (u32 i = 0; i < 16 && i < size; i++)
      (i < 8 ? value.x : value.y) |= u64(word_of<1>::load(source + i)) << i % 8 * 8;
    return value;
  }
  value = word_of<16>::load(reinterpret_cast<const ulonglong2 *>(source));
  if (size < 8)
    value.x &= (u64{1} << size * 8) - 1;
  if (size <= 8)
    value.y = 0;
  else if (size < 16)
    value.y &= (u64{1} << (size - 8) * 8) - 1;
  return value;
}

// Copy `size` bytes, a multiple of 16, in steps of eight words a thread, to a frame and a second
// target, which may be null. Threads in a run of `Lanes` copy adjacent words: distances known to
// the compiler take few registers. Returns the bytes that were copied; the rest is less than the
// step of a run.
template <u32 Lanes>
__device__ inline u32 fill_runs(u32 rank, u32 count, const frame_fill &fill, u32 size) {
  constexpr u32 unroll = 8, stride = Lanes * 16, step = unroll * stride;
  u32 const whole = size / step * step;
  u32 offset = rank / Lanes * step + rank % Lanes * 16;
#  pragma unroll 1
  for (; offset < whole; offset += count / Lanes * step) {
    const u8 *const source = fill.source + offset;
    ulonglong2 values[unroll];
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      values[k] = word_of<16>::load(reinterpret_cast<const ulonglong2 *>(source + k * stride));
    u8 *const frame = fill.frame + offset;
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      word_of<16>::store(reinterpret_cast<ulonglong2 *>(frame + k * stride), values[k]);
    if (fill.second_target == nullptr)
      continue;
    u8 *const second = fill.second_target + offset;
#  pragma unroll
    for (u32 k = 0; k < unroll; k++)
      *reinterpret_cast<ulonglong2 *>(second + k * stride) = values[k];
  }
  return whole;
}

__device__ __noinline__ void fill_frame(u32 rank, u32 count, const frame_fill &fill) {
  bool const is_aligned = (reinterpret_cast<u64>(fill.source) & 15) == 0;
  u32 const words_size = is_aligned ? u32(fill.size) / 16 * 16 : 0;
  u32 copied_size = 0;
  if (count % warp_size == 0)
    copied_size = fill_runs<warp_size>(rank, count, fill, words_size);
  else if (count == 1)
    copied_size = fill_runs<1>(rank, count, fill, words_size);
  u32 offset = copied_size + rank * 16;
#  pragma unroll 1
  for (; offset < fill.frame_size; offset += count * 16) {
    u64 const rest = offset < fill.size ? fill.size - offset : 0;
    ulonglong2 const value = load_part(fill.source + offset, rest);
    word_of<16>::store(reinterpret_cast<ulonglong2 *>(fill.frame + offset), value);
    if (fill.second_target != nullptr)
      *reinterpret_cast<ulonglong2 *>(fill.second_target + offset) = value;
  }
}

__device__ __noinline__ void fill_zero(u32 rank, u32 count, u8 *target, u64 size) {
  u64 const skew = (16 - (reinterpret_cast<u64>(target) & 15)) & 15,
            head = skew < size ? skew : size;
  for (u64 i = rank; i < head; i += count)
    target[i] = 0;
  u64 const words = (size - head) / 16;
  for (u64 i = rank; i < words; i += count)
    reinterpret_cast<ulonglong2 *>(target + head)[i] = ulonglong2{0, 0};
  for (u64 i = head + words * 16 + rank; i < size; i += count)
    target[i] = 0;
}

#else

enum class side { neither, source, target };

// Copy a contiguous part in each lane, with preemption points, so that simulations see torn copies.
// Short steps are used because compilers call memcpy for steps of unknown length, and its
// replacement for short ones is half as fast.
template <side Shared>
TND_DEVICE inline void copy_bytes(u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  u64 const part = (size / count + 63) / 64 * 64 + 64, step_max = part >= 65536 ? 16384 : 1024;
  u64 i = u64(rank) * part, end = i + part < size ? i + part : size;
  while (i < end) {
    u64 step = end - i < step_max ? end - i : step_max;
#  if defined(TND_TSAN)
    if (Shared != side::neither) {
      bool const wide =
          step >= 8 &&
          ((reinterpret_cast<u64>(target + i) | reinterpret_cast<u64>(source + i)) & 7) == 0;
      step = wide ? 8 : 1;
      // Both sides are treated as shared: the target may be a frame.
      if (wide)
        __atomic_store_n(
            reinterpret_cast<u64 *>(target + i),
            __atomic_load_n(reinterpret_cast<const u64 *>(source + i), __ATOMIC_ACQUIRE),
            __ATOMIC_RELEASE);
      else
        __atomic_store_n(
            target + i, __atomic_load_n(source + i, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
      i += step;
      continue;
    }
#  endif
    TND_COPY_BYTES(target + i, source + i, step);
    i += step;
    if (Shared != side::neither)
      TND_PREEMPTION_POINT();
  }
}

TND_DEVICE inline void copy_lines(u32 rank, u32 count, u8 *target, const u8 *source, u32 size) {
  copy_bytes<side::source>(rank, count, target, source, size);
}

template <side Shared>
TND_DEVICE inline void copy_ragged(u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  copy_bytes<Shared>(rank, count, target, source, size);
}

TND_DEVICE inline void copy_out(u32 rank, u32 count, u8 *target, const u8 *source, u64 size) {
  copy_bytes<side::neither>(rank, count, target, source, size);
}

TND_DEVICE inline void fill_zero(u32 rank, u32 count, u8 *target, u64 size) {
  for (u64 i = rank; i < size; i += count)
#  if defined(TND_TSAN)
    __atomic_store_n(target + i, u8{0}, __ATOMIC_RELAXED);
#  else
    target[i] = 0;
#  endif
}

TND_DEVICE inline void fill_frame(u32 rank, u32 count, const frame_fill &fill) {
  for (u8 *const target : {fill.frame, fill.second_target}) {
    if (target == nullptr)
      continue;
    copy_bytes<side::source>(rank, count, target, fill.source, fill.size);
    fill_zero(rank, count, target + fill.size, fill.frame_size - fill.size);
  }
}

#endif

}  // namespace detail

// The bytes are complete for the group only after group.sync(), which the caller issues.
template <class Group>
TND_DEVICE inline void copy(Group group, void *target, const void *source, u64 size) {
  detail::copy_bytes<detail::side::neither>(
      group.rank(), group.size(), static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}

// As copy(), to global memory of another device, or that no thread of this device reads soon.
template <class Group>
TND_DEVICE inline void copy_out(Group group, void *target, const void *source, u64 size) {
  detail::copy_out(
      group.rank(), group.size(), static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}

template <class Group>
TND_DEVICE inline void copy_from_host(Group group, void *target, const void *source, u64 size) {
  detail::copy_bytes<detail::side::source>(
      group.rank(), group.size(), static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}

// As copy_from_host(), where both sides and the size are multiples of 16. Inlined: for a caller
// that has little else to do.
template <class Group>
TND_DEVICE inline void copy_lines(Group group, u8 *target, const u8 *source, u32 size) {
  detail::copy_lines(group.rank(), group.size(), target, source, size);
}

// As copy_from_host(), with fewer loads in flight.
template <class Group>
TND_DEVICE inline void copy_ragged(Group group, u8 *target, const u8 *source, u64 size) {
  detail::copy_ragged<detail::side::source>(group.rank(), group.size(), target, source, size);
}

template <class Group>
TND_DEVICE inline void fill_zero(Group group, void *target, u64 size) {
  detail::fill_zero(group.rank(), group.size(), static_cast<u8 *>(target), size);
}

// Copy `size` bytes to a frame, and fill the rest of it with zeros. Threads may be reading the
// frame under a version check, since they looked up the page that it held before.
template <class Group>
TND_DEVICE inline void fill_frame(Group group, const frame_fill &fill) {
  detail::fill_frame(group.rank(), group.size(), fill);
}

template <class Group>
TND_DEVICE inline void copy_to_host(Group group, void *target, const void *source, u64 size) {
  detail::copy_ragged<detail::side::target>(
      group.rank(), group.size(), static_cast<u8 *>(target), static_cast<const u8 *>(source), size);
}

}  // namespace tanada::simt
