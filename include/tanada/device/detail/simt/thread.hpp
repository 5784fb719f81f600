// tanada/device/detail/simt/thread.hpp: thread indices, warp collectives, barriers and time,
// spelled the same on every compiler.
#pragma once

#include "atomic.hpp"
#include "config.hpp"
#if !TND_SIMT_CUDA
#  include "host/executor.hpp"
#endif

namespace tanada::simt {

inline constexpr u32 warp_size = 32;
inline constexpr u32 full_mask = 0xffffffffu;

// Convert a small trivially copyable object to a number and back; the remaining bytes are 0.
template <class Word, class T>
TND_DEVICE inline Word to_word(const T &object) {
  static_assert(sizeof(T) <= sizeof(Word));
  Word word = 0;
  TND_COPY_BYTES(&word, &object, sizeof(T));
  return word;
}
template <class T, class Word>
TND_DEVICE inline T from_word(Word word) {
  static_assert(sizeof(T) <= sizeof(Word));
  T object;
  TND_COPY_BYTES(&object, &word, sizeof(T));
  return object;
}

#if TND_SIMT_CUDA

TND_DEVICE inline u32 thread_index_x() {
  return threadIdx.x;
}
TND_DEVICE inline u32 thread_index_y() {
  return threadIdx.y;
}
TND_DEVICE inline u32 thread_index_z() {
  return threadIdx.z;
}
TND_DEVICE inline u32 block_index_x() {
  return blockIdx.x;
}
TND_DEVICE inline u32 block_index_y() {
  return blockIdx.y;
}
TND_DEVICE inline u32 block_index_z() {
  return blockIdx.z;
}
TND_DEVICE inline u32 block_size_x() {
  return blockDim.x;
}
TND_DEVICE inline u32 block_size_y() {
  return blockDim.y;
}
TND_DEVICE inline u32 block_size_z() {
  return blockDim.z;
}
TND_DEVICE inline u32 grid_size_x() {
  return gridDim.x;
}
TND_DEVICE inline u32 grid_size_y() {
  return gridDim.y;
}
TND_DEVICE inline u32 grid_size_z() {
  return gridDim.z;
}

// Names the collective call that a thread makes, for the host executor's messages.
class call_name {
 public:
  TND_DEVICE explicit call_name(const char *) {}
  TND_DEVICE ~call_name() {}  // so that compilers do not report unused variables
};

TND_DEVICE inline void block_barrier() {
  __syncthreads();
}
// For collectives of this_block and this_warp. The host executor detects a missing thread of the
// group.
TND_DEVICE inline void block_group_barrier() {
  __syncthreads();
}
TND_DEVICE inline void expect_whole_warp() {}
TND_DEVICE inline void warp_barrier(u32 mask) {
  __syncwarp(mask);
}
// A block_barrier() that returns to all threads whether any of them voted true.
TND_DEVICE inline bool block_any(bool vote) {
  return __syncthreads_or(vote ? 1 : 0) != 0;
}
TND_DEVICE inline u32 ballot(u32 mask, bool vote) {
  return __ballot_sync(mask, vote);
}
// The value of `source_lane`, which must be in `mask`; any trivially copyable type of at most 8
// bytes.
template <class T>
TND_DEVICE inline T shuffle(u32 mask, T value, u32 source_lane) {
  if constexpr (sizeof(T) <= 4)
    return from_word<T>(__shfl_sync(mask, to_word<u32>(value), int(source_lane)));
  else
    return from_word<T>(__shfl_sync(mask, to_word<u64>(value), int(source_lane)));
}
TND_DEVICE inline u32 match_any(u32 mask, u64 value) {
  return __match_any_sync(mask, value);
}
// The largest value of the lanes in `mask`.
TND_DEVICE inline u32 reduce_max(u32 mask, u32 value) {
  return __reduce_max_sync(mask, value);
}
TND_DEVICE inline u32 active_mask() {
  return __activemask();
}
TND_DEVICE inline u32 bit_count(u32 bits) {
  return u32(__popc(int(bits)));
}
TND_DEVICE inline u32 first_bit(u32 bits) {
  return u32(__ffs(int(bits))) - 1;
}
TND_DEVICE inline u32 last_bit(u64 bits) {
  return 63 - u32(__clzll((long long)bits));
}

// A promise by a function that is called with a reference: `object` lies on this thread's stack.
// Its loads and stores take less code and fewer registers then.
template <class T>
TND_DEVICE inline void assume_on_stack(const T &object) {
  __builtin_assume(__isLocal(&object));
}

// `object`, a variable of the caller, of which the compiler then knows nothing: it stays in memory,
// and its members are loaded when they are needed. So they take no registers across calls.
template <class T>
TND_DEVICE inline T &in_memory(T &object) {
  asm volatile("" : : "l"(&object) : "memory");
  return object;
}

// Nanoseconds on the device's clock; for timeouts, not for ordering.
TND_DEVICE inline u64 now_ns() {
  u64 time_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time_ns));
  return time_ns;
}

// True for memory private to this thread or block: a stack, shared memory. Copy engines, the host
// and other blocks cannot access it.
TND_DEVICE inline bool is_private(const void *addr) {
  return !__isGlobal(addr);
}

#else

class call_name {
 public:
  explicit call_name(const char *name) : previous_{host::ids().call} {
    host::ids().call = name;
  }
  ~call_name() {
    host::ids().call = previous_;
  }
  call_name(const call_name &) = delete;
  call_name &operator=(const call_name &) = delete;

 private:
  const char *previous_;
};

template <class T>
inline T &in_memory(T &object) {
  return object;
}
template <class T>
inline void assume_on_stack(const T &) {}

inline u32 thread_index_x() {
  return host::ids().thread.x;
}
inline u32 thread_index_y() {
  return host::ids().thread.y;
}
inline u32 thread_index_z() {
  return host::ids().thread.z;
}
inline u32 block_index_x() {
  return host::ids().block.x;
}
inline u32 block_index_y() {
  return host::ids().block.y;
}
inline u32 block_index_z() {
  return host::ids().block.z;
}
inline u32 block_size_x() {
  return host::ids().block_size.x;
}
inline u32 block_size_y() {
  return host::ids().block_size.y;
}
inline u32 block_size_z() {
  return host::ids().block_size.z;
}
inline u32 grid_size_x() {
  return host::ids().grid_size.x;
}
inline u32 grid_size_y() {
  return host::ids().grid_size.y;
}
inline u32 grid_size_z() {
  return host::ids().grid_size.z;
}

inline void block_group_barrier() {
  host::block_group_barrier();
}
inline void expect_whole_warp() {
  host::expect_whole_warp();
}
inline void block_barrier() {
  host::block_barrier();
}
inline void warp_barrier(u32 mask) {
  host::warp_barrier(mask);
}
inline bool block_any(bool vote) {
  TND_SHARED(u32, votes);
  atomic_ref<u32, scope::device> const vote_count(votes);
  host::block_barrier();
  if (host::ids().linear == 0)
    vote_count.store_relaxed(0);
  host::block_barrier();
  if (vote)
    (void)vote_count.fetch_add_relaxed(1);
  host::block_barrier();
  return vote_count.load_relaxed() != 0;
}

inline u32 ballot(u32 mask, bool vote) {
  u64 votes[warp_size];
  u32 const present = host::warp_exchange(mask, vote ? 1 : 0, votes);
  u32 bits = 0;
  for (u32 i = 0; i < warp_size; i++)
    if ((present >> i & 1) != 0 && votes[i] != 0)
      bits |= 1u << i;
  return bits;
}

template <class T>
inline T shuffle(u32 mask, T value, u32 source_lane) {
  u64 values[warp_size];
  (void)host::warp_exchange(mask, to_word<u64>(value), values);
  return from_word<T>(values[source_lane % warp_size]);
}

inline u32 match_any(u32 mask, u64 value) {
  u64 values[warp_size];
  u32 const present = host::warp_exchange(mask, value, values);
  u32 bits = 0;
  for (u32 i = 0; i < warp_size; i++)
    if ((present >> i & 1) != 0 && values[i] == value)
      bits |= 1u << i;
  return bits;
}

inline u32 reduce_max(u32 mask, u32 value) {
  u64 values[warp_size];
  u32 const present = host::warp_exchange(mask, value, values);
  u64 largest = 0;
  for (u32 i = 0; i < warp_size; i++)
    if ((present >> i & 1) != 0 && values[i] > largest)
      largest = values[i];
  return u32(largest);
}

// Lanes that happen to run together. On the host executor that is only the calling lane.
inline u32 active_mask() {
  return 1u << (host::ids().linear % warp_size);
}
inline u32 bit_count(u32 bits) {
  return u32(__builtin_popcount(bits));
}
inline u32 first_bit(u32 bits) {
  return u32(__builtin_ffs(int(bits))) - 1;
}
inline u32 last_bit(u64 bits) {
  return 63 - u32(__builtin_clzll(bits));
}
inline u64 now_ns() {
  return host::now_ns();
}
inline bool is_private(const void *addr) {
  return host::is_private(addr);
}

#endif

// Index of the calling thread in its block, x fastest.
TND_DEVICE inline u32 thread_rank_in_block() {
  return thread_index_x() + block_size_x() * (thread_index_y() + block_size_y() * thread_index_z());
}
TND_DEVICE inline u32 block_thread_count() {
  return block_size_x() * block_size_y() * block_size_z();
}
TND_DEVICE inline u32 lane_index() {
  return thread_rank_in_block() % warp_size;
}
// Index of the calling block in the grid, x fastest.
TND_DEVICE inline u64 block_rank() {
  return block_index_x() +
         u64(grid_size_x()) * (block_index_y() + u64(grid_size_y()) * block_index_z());
}
// Index of the calling thread in the grid: block_rank * threads a block + thread_rank_in_block.
TND_DEVICE inline u64 global_thread_rank() {
  return block_rank() * block_thread_count() + thread_rank_in_block();
}

}  // namespace tanada::simt
