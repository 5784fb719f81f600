// Collectives in kernels against their expected results: all sizes, types and groups, one after the
// other in any order. "parts": only reductions of int, in which some of many PEs have empty parts.
#include "kernel_test.hpp"

#include <cstring>

using namespace kernel_test;
using tanada::shmem::device::reduction;

namespace {

constexpr u64 size_max = 100000;

TND_DEVICE unsigned char pattern(int pe, int to_pe, u64 i, u64 size) {
  return (unsigned char)(i * 11 + u64(pe) * 37 + u64(to_pe) * 101 + size + (i >> 7));
}

template <class Group>
TND_DEVICE void moves(Group group, u8 *target, u8 *source, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  constexpr u64 sizes[] = {0, 1, 3, 4, 8, 100, 1000, 4095, 4096, 4100, 20001, size_max};
  for (u64 const size : sizes) {
    for (int root = 0; root < all; root++) {
      for (u64 i = group.rank(); i < size; i += group.size()) {
        source[i] = pattern(self, 0, i, size);
        target[i] = 0;
      }
      (void)tanada::shmemg::barrier(group);
      EXPECT(to, 0, int(tanada::shmemg::broadcast(group, target, source, size, root)));
      group.sync();
      for (u64 i = group.rank(); i < size; i += group.size())
        EXPECT(to, pattern(root, 0, i, size), target[i]);
      group.sync();
    }
    (void)tanada::shmemg::barrier(group);
    EXPECT(to, 0, int(tanada::shmemg::fcollect(group, target, source, size)));
    group.sync();
    for (int pe = 0; pe < all; pe++)
      for (u64 i = group.rank(); i < size; i += group.size())
        EXPECT(to, pattern(pe, 0, i, size), target[u64(pe) * size + i]);
    for (int pe = 0; pe < all; pe++)
      for (u64 i = group.rank(); i < size; i += group.size())
        source[u64(pe) * size + i] = pattern(self, pe, i, size);
    (void)tanada::shmemg::barrier(group);
    EXPECT(to, 0, int(tanada::shmemg::alltoall(group, target, source, size)));
    group.sync();
    for (int pe = 0; pe < all; pe++)
      for (u64 i = group.rank(); i < size; i += group.size())
        EXPECT(to, pattern(pe, self, i, size), target[u64(pe) * size + i]);
    (void)tanada::shmemg::barrier(group);
  }
}
TND_KERNEL void moves_by_thread(u8 *target, u8 *source, findings *to) {
  moves(tanada::this_thread{}, target, source, to);
}
TND_KERNEL void moves_by_warp(u8 *target, u8 *source, findings *to) {
  moves(tanada::this_warp{}, target, source, to);
}
TND_KERNEL void moves_by_block(u8 *target, u8 *source, findings *to) {
  moves(tanada::this_block{}, target, source, to);
}

// Only broadcasts, one after the other: a fast PE must not overtake a slow one. Each message has
// its own target.
TND_KERNEL void many_broadcasts(u64 *target, u64 *source, u32 rounds, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  for (u32 round = 0; round < rounds; round++) {
    int const root = int(round) % (all > 2 ? 2 : all);
    source[round] = u64(round) * 64 + u64(self);
    EXPECT(to,
           0,
           shmemgx_broadcastmem(SHMEM_DEVICE_TEAM_WORLD, target + round, source + round, 8, root));
    EXPECT(to, u64(round) * 64 + u64(root), target[round]);
  }
}

template <class T>
TND_DEVICE T element_of(int pe, u64 i) {
  return T((u64(pe) * 3 + i) % 5 + 1);
}
template <reduction Op, class Group, class T>
TND_DEVICE void check_reduce(
    Group group, T *target, T *source, u64 elements, bool in_place, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  T *const result = in_place ? source : target;
  for (u64 i = group.rank(); i < elements; i += group.size())
    source[i] = element_of<T>(self, i);
  EXPECT(to, 0, int(tanada::shmemg::reduce<Op>(group, result, source, elements)));
  group.sync();
  for (u64 i = group.rank(); i < elements; i += group.size()) {
    T expected = element_of<T>(0, i);
    for (int pe = 1; pe < all; pe++)
      expected = tanada::shmem::device::combine<Op>(expected, element_of<T>(pe, i));
    EXPECT(to, 1, expected == result[i]);
  }
  (void)tanada::shmemg::barrier(group);
}
#define ELEMENT_COUNTS {1, 2, 3, 33, 512, 513, 1025, 5000}
template <class T, class Group>
TND_DEVICE void reduce_all(Group group, u8 *target, u8 *source, findings *to) {
  constexpr u64 counts[] = ELEMENT_COUNTS;
  for (u64 const elements : counts) {
    T *const at = reinterpret_cast<T *>(target), *const from = reinterpret_cast<T *>(source);
    check_reduce<reduction::sum>(group, at, from, elements, false, to);
    check_reduce<reduction::prod>(group, at, from, elements < 600 ? elements : 600, true, to);
    check_reduce<reduction::min>(group, at + 1, from, elements, false, to);
    check_reduce<reduction::max>(group, at, from, elements, true, to);
  }
}
#define REDUCE_TYPE(NAME, TYPE, A)                                      \
  TND_KERNEL void reduce_##NAME(u8 *target, u8 *source, findings *to) { \
    reduce_all<TYPE>(tanada::this_block{}, target, source, to);         \
  }
REDUCE_TYPE(float, float, )
REDUCE_TYPE(double, double, )
REDUCE_TYPE(int, int, )
REDUCE_TYPE(long, long, )
REDUCE_TYPE(schar, signed char, )
REDUCE_TYPE(ushort, unsigned short, )
TND_KERNEL void reduce_by_thread(u8 *target, u8 *source, findings *to) {
  reduce_all<long>(tanada::this_thread{}, target, source, to);
}
TND_KERNEL void reduce_by_warp(u8 *target, u8 *source, findings *to) {
  reduce_all<int>(tanada::this_warp{}, target, source, to);
}
TND_KERNEL void reduce_bits(u8 *target, u8 *source, findings *to) {
  unsigned *const at = reinterpret_cast<unsigned *>(target), *const from =
                                                                 reinterpret_cast<unsigned *>(
                                                                     source);
  constexpr u64 counts[] = ELEMENT_COUNTS;
  for (u64 const elements : counts) {
    check_reduce<reduction::bit_and>(tanada::this_block{}, at, from, elements, false, to);
    check_reduce<reduction::bit_or>(tanada::this_block{}, at, from, elements, true, to);
    check_reduce<reduction::bit_xor>(tanada::this_block{}, at, from, elements, false, to);
  }
}
// By name: one of each kind.
TND_KERNEL void by_name(int *target, int *source, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  shmem_team_t const team = SHMEM_DEVICE_TEAM_WORLD;
  u32 const rank = simt::thread_rank_in_block();
  if (rank == 0)
    source[0] = self + 1;
  EXPECT(to, 0, shmemgx_int_sum_reduce_tg(team, target, source, 1));
  EXPECT(to, all * (all + 1) / 2, target[0]);
  EXPECT(to, 0, shmemgx_int_max_reduce_tg(team, target + 1, source, 1));
  EXPECT(to, all, target[1]);
  EXPECT(to, 0, shmemgx_int_broadcast_tg(team, target + 2, source, 1, all - 1));
  EXPECT(to, all, target[2]);
  EXPECT(to, 0, shmemgx_int_fcollect_tg(team, target + 8, source, 1));
  for (int pe = 0; pe < all; pe++)
    EXPECT(to, pe + 1, target[8 + pe]);
  // No such team: nonzero, and no other effect.
  simt::block_barrier();
}

}  // namespace

int main(int argc, char **argv) {
  start();
  u8 *const target = allocate<u8>(size_max * size_t(count) + 64), *const source = allocate<u8>(
                                                                      size_max * size_t(count) +
                                                                      64);
  if (argc > 1 && std::strcmp(argv[1], "parts") == 0) {
    RUN(1, 32, reduce_int, target, source, found_here);
    return finish("collectives");
  }
  RUN(1, 256, moves_by_block, target, source, found_here);
  RUN(1, 32, moves_by_warp, target, source, found_here);
  RUN(1, 1, moves_by_thread, target, source, found_here);
  RUN(1,
      1,
      many_broadcasts,
      reinterpret_cast<u64 *>(target),
      reinterpret_cast<u64 *>(source),
      2000,
      found_here);
  RUN(1, 128, reduce_float, target, source, found_here);
  RUN(1, 128, reduce_double, target, source, found_here);
  RUN(1, 128, reduce_int, target, source, found_here);
  RUN(1, 64, reduce_long, target, source, found_here);
  RUN(1, 128, reduce_schar, target, source, found_here);
  RUN(1, 128, reduce_ushort, target, source, found_here);
  RUN(1, 1, reduce_by_thread, target, source, found_here);
  RUN(1, 32, reduce_by_warp, target, source, found_here);
  RUN(1, 128, reduce_bits, target, source, found_here);
  RUN(1, 64, by_name, reinterpret_cast<int *>(target), reinterpret_cast<int *>(source), found_here);
  return finish("collectives");
}
