// A thread's stack and a block's shared memory as sources and targets of every call that takes an
// address of the kernel. This includes calls that the host carries out, which can access neither.
#include "kernel_test.hpp"

using namespace kernel_test;

namespace {

constexpr u32 area = 16384;  // bytes
constexpr u64 size_max = 3000;
// Sizes around the capacity of a request.
#define SIZES {1, 8, 100, 1023, 1024, 1025, 2048, size_max}

TND_DEVICE u8 pattern(int pe, u64 i, u32 round) {
  return u8(i * 5 + u64(pe) * 37 + round * 11 + (i >> 8));
}

template <class Group>
TND_DEVICE void fill(Group group, u8 *own, u64 size, u32 round) {
  for (u64 i = group.rank(); i < size; i += group.size())
    own[i] = pattern(shmemg_my_pe(), i, round);
  group.sync();
}
template <class Group>
TND_DEVICE void expect_pattern(
    Group group, findings *to, const u8 *at, u64 size, int pe, u32 round, u32 line) {
  for (u64 i = group.rank(); i < size; i += group.size())
    expect(to, pattern(pe, i, round), at[i], line);
}
#define EXPECT_PATTERN(at, size, pe, round) expect_pattern(group, to, at, size, pe, round, __LINE__)

struct places {
  u8 *target;  // symmetric
  uint64_t *signal;
};

template <class Group>
TND_DEVICE void puts_and_gets(Group group, u8 *own, const places &at, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  u32 round = 0;
  constexpr u64 sizes[] = SIZES;
  for (u64 const size : sizes) {
    for (u32 way = 0; way < 2; way++, round++) {
      fill(group, own, size, round);
      if (group.rank() == 0)
        at.target[size] = 0xee;
      EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
      EXPECT(to,
             0,
             int(way == 0 ? tanada::shmemg::put(group, at.target, own, size, next)
                          : tanada::shmemg::put_nbi(group, at.target, own, size, next)));
      EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
      EXPECT_PATTERN(at.target, size, before, round);
      EXPECT(to, 0xee, at.target[size]);
      fill(group, own, size_max, round + 100);
      EXPECT(to,
             0,
             int(way == 0 ? tanada::shmemg::get(group, own, at.target, size, next)
                          : tanada::shmemg::get_nbi(group, own, at.target, size, next)));
      if (way != 0)
        EXPECT(to, 0, int(tanada::shmemg::quiet(group)));
      EXPECT_PATTERN(own, size, self, round);
      if (size < size_max)
        EXPECT(to, pattern(self, size, round + 100), own[size]);
      EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
    }
  }
}

// A PE that sees the signal sees all pieces.
template <class Group>
TND_DEVICE void signals(Group group, u8 *own, const places &at, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  u32 round = 50;
  constexpr u64 sizes[] = SIZES;
  for (u64 const size : sizes) {
    for (int const operation : {SHMEM_SIGNAL_SET, SHMEM_SIGNAL_ADD}) {
      round++;
      if (group.rank() == 0)
        *at.signal = 1000;
      fill(group, own, size, round);
      EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
      EXPECT(to,
             0,
             int(tanada::shmemg::put_signal(
                 group, at.target, own, size, at.signal, 7, operation, next)));
      uint64_t const awaited = operation == SHMEM_SIGNAL_SET ? 7 : 1007;
      EXPECT(to, 0, int(tanada::shmemg::wait_until(group, at.signal, SHMEM_CMP_EQ, awaited)));
      EXPECT_PATTERN(at.target, size, before, round);
      EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
    }
  }
}

struct wide {
  u64 words[2];
};
TND_DEVICE u64 value_of(u64 number) {
  return number * 0x0101010101010101;
}
template <class T>
TND_DEVICE T made_of(u64 number) {
  T made;
  u64 const words[2] = {value_of(number), value_of(number + 1)};
  TND_COPY_BYTES(&made, words, sizeof(T));
  return made;
}
template <class T>
TND_DEVICE bool is_made_of(const T &value, u64 number) {
  T const expected = made_of<T>(number);
  for (u32 i = 0; i < sizeof(T); i++)
    if (reinterpret_cast<const u8 *>(&value)[i] != reinterpret_cast<const u8 *>(&expected)[i])
      return false;
  return true;
}

// Forwards, separate and backwards; more than fits into a request.
template <class T, class Group>
TND_DEVICE void rows_of(Group group, T *own, const places &at, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  constexpr u64 own_count = size_max / sizeof(T), there_count = area / 2 / sizeof(T);
  T *const there = reinterpret_cast<T *>(at.target);
  struct {
    long long there, own;
  } const strides[] = {{1, 1}, {2, 3}, {-2, 1}, {1, -2}, {3, 0}};
  for (auto const &by : strides) {
    u64 const reach = u64(by.own < 0 ? -by.own : by.own),
              reach_there = u64(by.there < 0 ? -by.there : by.there);
    u64 const count = reach == 0 ? 9
                                 : ((own_count - 1) / reach < (there_count - 1) / reach_there
                                        ? (own_count - 1) / reach
                                        : (there_count - 1) / reach_there);
    T *const first = own + (by.own < 0 ? own_count - 1 : 0), *const first_there =
                                                                 there + (by.there < 0
                                                                              ? there_count - 1
                                                                              : 0);
    for (u64 i = group.rank(); i < own_count; i += group.size())
      own[i] = made_of<T>(u64(self) * 10000 + i);
    for (u64 i = group.rank(); i < there_count; i += group.size())
      there[i] = made_of<T>(7);
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
    EXPECT(to,
           0,
           int(tanada::shmemg::iput(
               group, first_there, first, ptrdiff_t(by.there), ptrdiff_t(by.own), count, next)));
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
    for (u64 i = group.rank(); i < count; i += group.size()) {
      u64 const number = u64(first + static_cast<long long>(i) * by.own - own);
      EXPECT(to,
             1,
             is_made_of(first_there[static_cast<long long>(i) * by.there],
                        u64(before) * 10000 + number));
    }
    if (by.there == 2)
      EXPECT(to, 1, is_made_of(there[1], 7));
    for (u64 i = group.rank(); i < own_count; i += group.size())
      own[i] = made_of<T>(9);
    group.sync();
    if (by.own != 0) {
      EXPECT(to,
             0,
             int(tanada::shmemg::iget(
                 group, first, first_there, ptrdiff_t(by.own), ptrdiff_t(by.there), count, next)));
      for (u64 i = group.rank(); i < count; i += group.size()) {
        T *const mine = first + static_cast<long long>(i) * by.own;
        EXPECT(to, 1, is_made_of(*mine, u64(self) * 10000 + u64(mine - own)));
      }
      if (by.own == 3 && group.rank() == 0)
        EXPECT(to, 1, is_made_of(own[1], 9));
    }
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
  }
}

// Values and results of atomics are passed by value; the words for results may be anywhere.
TND_DEVICE void words(const places &at, findings *to) {
  int const self = shmemg_my_pe(), next = (self + 1) % shmemg_n_pes();
  uint64_t got = 0, *const word = at.signal;
  double back = 0;
  shmemg_uint64_atomic_set(word, 5, next);
  shmemg_uint64_atomic_fetch_add_nbi(&got, word, 3, next);
  shmemg_quiet();
  EXPECT(to, 5, got);
  shmemg_uint64_atomic_compare_swap_nbi(&got, word, 8, 11, next);
  shmemg_quiet();
  EXPECT(to, 8, got);
  shmemg_uint64_atomic_fetch_nbi(&got, word, next);
  shmemg_quiet();
  EXPECT(to, 11, got);
  shmemg_double_p(reinterpret_cast<double *>(at.target), 1.5, next);
  shmemg_quiet();
  back = shmemg_double_g(reinterpret_cast<const double *>(at.target), next);
  EXPECT(to, 1, back == 1.5);
  (void)shmemgx_barrier_all();
}

// Collectives that do not fit into boxes use puts.
template <class Group>
TND_DEVICE void collectives(Group group, u8 *own, const places &at, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  u64 const each = all <= 2 ? 3000 : 1500;
  for (u64 const size : {u64{24}, each}) {
    fill(group, own, size, 80);
    EXPECT(to, 0, int(tanada::shmemg::broadcast(group, at.target, own, size, all - 1)));
    EXPECT_PATTERN(at.target, size, all - 1, 80);
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));  // the next one's target is the same
    EXPECT(to, 0, int(tanada::shmemg::fcollect(group, at.target, own, size)));
    for (int pe = 0; pe < all; pe++)
      EXPECT_PATTERN(at.target + u64(pe) * size, size, pe, 80);
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
    u64 const part = size / u64(all);
    EXPECT(to, 0, int(tanada::shmemg::alltoall(group, at.target, own, part)));
    for (u64 i = group.rank(); i < part * u64(all); i += group.size())
      EXPECT(to, pattern(int(i / part), u64(self) * part + i % part, 80), at.target[i]);
    EXPECT(to, 0, int(tanada::shmemg::barrier(group)));
  }
}

template <class Group>
TND_DEVICE void all_calls(Group group, u8 *own, const places &at, findings *to) {
  puts_and_gets(group, own, at, to);
  signals(group, own, at, to);
  rows_of(group, own, at, to);
  rows_of(group, reinterpret_cast<u32 *>(own), at, to);
  rows_of(group, reinterpret_cast<wide *>(own), at, to);
  collectives(group, own, at, to);
}

TND_KERNEL void from_a_stack(places at, findings *to) {
  alignas(16) u8 own[size_max];
  all_calls(tanada::this_thread{}, own, at, to);
  words(at, to);
}
struct alignas(16) bytes {
  u8 at[size_max];
};
TND_KERNEL void from_shared_memory_by_warp(places at, findings *to) {
  TND_SHARED(bytes, own);
  if (simt::thread_rank_in_block() < 32)
    all_calls(tanada::this_warp{}, own.at, at, to);
}
TND_KERNEL void from_shared_memory_by_block(places at, findings *to) {
  TND_SHARED(bytes, own);
  all_calls(tanada::this_block{}, own.at, at, to);
}

}  // namespace

int main() {
  start();
  places const at{allocate<u8>(area), allocate<uint64_t>(1)};
  RUN(1, 1, from_a_stack, at, found_here);
  RUN(1, 64, from_shared_memory_by_warp, at, found_here);
  RUN(1, 96, from_shared_memory_by_block, at, found_here);
  return finish("private");
}
