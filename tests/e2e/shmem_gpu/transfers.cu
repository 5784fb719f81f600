// Puts and gets in kernels: by thread, warp and block, at all alignments, of values and rows.
#include "kernel_test.hpp"

using namespace kernel_test;

namespace {

constexpr u32 area = 1 << 16;  // bytes

TND_DEVICE unsigned char pattern(int pe, u64 i, u32 round) {
  return (unsigned char)(i * 7 + u64(pe) * 31 + round * 13 + (i >> 8));
}

// Two blocks must not use the same memory: each has a part of the area.
template <class Group>
TND_DEVICE void put_pieces(Group group, u8 *target, u8 *source, u8 *back, findings *to, u32 round) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  constexpr u64 sizes[] = {0,  1,  2,  3,   4,   7,   8,    9,    15,   16,
                           17, 31, 64, 100, 128, 255, 1024, 1025, 4097, 20000};
  constexpr u64 offsets[] = {0, 1, 4, 8, 13};
  for (u64 const size : sizes) {
    for (u64 const target_offset : offsets) {
      u64 const source_offset = (target_offset * 3 + round) % 16;
      for (u64 i = group.rank(); i < size; i += group.size())
        source[source_offset + i] = pattern(self, i, round);
      u8 *const last = target + target_offset + size;
      if (group.rank() == 0)
        *last = 0xee;
      group.sync();
      (void)tanada::shmemg::barrier(group);
      if (round % 2 == 0) {
        (void)tanada::shmemg::put(
            group, target + target_offset, source + source_offset, size, next);
      } else {
        (void)tanada::shmemg::put_nbi(
            group, target + target_offset, source + source_offset, size, next);
      }
      (void)tanada::shmemg::barrier(group);
      for (u64 i = group.rank(); i < size; i += group.size())
        EXPECT(to, pattern(before, i, round), target[target_offset + i]);
      if (group.rank() == 0)
        EXPECT(to, 0xee, *last);
      // The next PE's data are now mine.
      if (round % 2 == 0) {
        (void)tanada::shmemg::get(group, back + source_offset, target + target_offset, size, next);
      } else {
        (void)tanada::shmemg::get_nbi(
            group, back + source_offset, target + target_offset, size, next);
        (void)tanada::shmemg::quiet(group);
      }
      for (u64 i = group.rank(); i < size; i += group.size())
        EXPECT(to, pattern(self, i, round), back[source_offset + i]);
      (void)tanada::shmemg::barrier(group);
    }
  }
}

TND_KERNEL void by_thread(u8 *target, u8 *source, u8 *back, findings *to) {
  for (u32 round = 0; round < 2; round++)
    put_pieces(tanada::this_thread{}, target, source, back, to, round);
}
TND_KERNEL void by_warp(u8 *target, u8 *source, u8 *back, findings *to) {
  if (simt::thread_rank_in_block() < 32)
    for (u32 round = 0; round < 2; round++)
      put_pieces(tanada::this_warp{}, target, source, back, to, round);
}
TND_KERNEL void by_block(u8 *target, u8 *source, u8 *back, findings *to) {
  for (u32 round = 0; round < 2; round++)
    put_pieces(tanada::this_block{}, target, source, back, to, round);
}

// Each block puts into its own part, beside others' parts.
TND_KERNEL void by_blocks(u8 *target, u8 *source, u32 part) {
  u64 const begin = simt::block_rank() * part;
  int const next = (shmemg_my_pe() + 1) % shmemg_n_pes();
  for (u32 i = simt::thread_rank_in_block(); i < part; i += simt::block_thread_count())
    source[begin + i] = pattern(shmemg_my_pe(), begin + i, 5);
  shmemg_putmem_tg(target + begin, source + begin, part, next);
  shmemg_quiet_tg();
}
TND_KERNEL void check_blocks(const u8 *target, u32 size, findings *to) {
  int const before = (shmemg_my_pe() + shmemg_n_pes() - 1) % shmemg_n_pes();
  for (u32 i = u32(simt::global_thread_rank()); i < size;
       i += simt::block_thread_count() * simt::grid_size_x())
    EXPECT(to, pattern(before, i, 5), target[i]);
}

// One value of each type, to the next PE, by p, and back by g.
template <class T>
TND_DEVICE T value_of(int pe) {
  return T(pe + 3);
}
#define CHECK_VALUE(NAME, TYPE, A)                                                                 \
  {                                                                                                \
    TYPE *const at = reinterpret_cast<TYPE *>(target);                                             \
    shmemg_##NAME##_p(at, value_of<TYPE>(self), next);                                             \
    (void)shmemgx_barrier_all();                                                                   \
    EXPECT(to, value_of<TYPE>(before) == *at, 1);                                                  \
    EXPECT(to, value_of<TYPE>(self) == shmemg_##NAME##_g(at, next), 1);                            \
    EXPECT(                                                                                        \
        to, value_of<TYPE>(self) == shmemg_ctx_##NAME##_g(SHMEM_DEVICE_CTX_DEFAULT, at, next), 1); \
    (void)shmemgx_barrier_all();                                                                   \
    shmemg_ctx_##NAME##_p(SHMEM_DEVICE_CTX_DEFAULT, at + 1, value_of<TYPE>(self + 1), next);       \
    (void)shmemgx_barrier_all();                                                                   \
    EXPECT(to, value_of<TYPE>(before + 1) == at[1], 1);                                            \
    (void)shmemgx_barrier_all();                                                                   \
    TYPE *const rows = at + 8, *const own = reinterpret_cast<TYPE *>(source);                      \
    for (int i = 0; i < 10; i++)                                                                   \
      own[i * 3] = value_of<TYPE>(self + i), rows[i] = value_of<TYPE>(0);                          \
    (void)shmemgx_barrier_all();                                                                   \
    shmemgx_##NAME##_iput(rows, own, 2, 3, 5, next);                                               \
    (void)shmemgx_barrier_all();                                                                   \
    for (int i = 0; i < 5; i++)                                                                    \
      EXPECT(to, value_of<TYPE>(before + i) == rows[i * 2], 1);                                    \
    for (int i = 0; i < 5; i++)                                                                    \
      EXPECT(to, value_of<TYPE>(0) == rows[i * 2 + 1], 1);                                         \
    shmemgx_##NAME##_iget(own + 40, rows, 1, 2, 5, next);                                          \
    for (int i = 0; i < 5; i++)                                                                    \
      EXPECT(to, value_of<TYPE>(self + i) == own[40 + i], 1);                                      \
    (void)shmemgx_barrier_all();                                                                   \
  }
// GPUs do not support long double.
#define VALUE_TABLE(X, A)                                                \
  X(float, float, A) X(double, double, A) SHMEM_TABLE_SMALL_SIGNED(X, A) \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)                                       \
  SHMEM_TABLE_SMALL_FIXED(X, A)                                          \
  SHMEM_TABLE_AMO(X, A)
TND_KERNEL void values(u8 *target, u8 *source, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  VALUE_TABLE(CHECK_VALUE, )
}

// From the stack, and from shared memory.
TND_KERNEL void local_sources(u64 *target, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  u64 mine[4];
  for (u32 i = 0; i < 4; i++)
    mine[i] = u64(self) * 100 + i;
  using row = u64[4];
  TND_SHARED(row, shared);
  if (simt::thread_rank_in_block() < 4)
    shared[simt::thread_rank_in_block()] = u64(self) * 1000 + simt::thread_rank_in_block();
  if (simt::thread_rank_in_block() == 0)
    shmemg_putmem(target, mine, sizeof mine, next);
  shmemg_putmem_tg(target + 4, shared, sizeof shared, next);
  (void)shmemgx_barrier_all_tg();
  if (simt::thread_rank_in_block() < 4) {
    u32 const i = simt::thread_rank_in_block();
    EXPECT(to, u64(before) * 100 + i, target[i]);
    EXPECT(to, u64(before) * 1000 + i, target[4 + i]);
  }
  (void)shmemgx_barrier_all_tg();
}

TND_KERNEL void pointers(u64 *target, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  for (int pe = 0; pe < all; pe++) {
    u64 *const there = static_cast<u64 *>(shmemg_ptr(target + self, pe));
    if (there != nullptr)
      *there = u64(self) + 77;
    else
      shmemg_uint64_p(reinterpret_cast<uint64_t *>(target + self), uint64_t(self) + 77, pe);
  }
  (void)shmemgx_barrier_all();
  for (int pe = 0; pe < all; pe++)
    EXPECT(to, u64(pe) + 77, target[pe]);
  EXPECT(to, reinterpret_cast<u64>(target), reinterpret_cast<u64>(shmemg_ptr(target, self)));
  EXPECT(to, 0, reinterpret_cast<u64>(shmemg_ptr(&self, self)));
  (void)shmemgx_barrier_all();
}

}  // namespace

int main() {
  start();
  u8 *const target = allocate<u8>(area), *const source = allocate<u8>(area),
            *const back = allocate<u8>(area);
  RUN(1, 1, by_thread, target, source, back, found_here);
  RUN(1, 64, by_warp, target, source, back, found_here);
  RUN(1, 96, by_block, target, source, back, found_here);
  RUN(1, 256, by_block, target, source, back, found_here);
  for (u32 const part : {1u, 8u, 100u, 1000u, 4096u}) {
    RUN(8, 64, by_blocks, target, source, part);
    RUN(2, 64, check_blocks, target, 8 * part, found_here);
  }
  RUN(1, 1, values, target, source, found_here);
  RUN(1, 64, local_sources, reinterpret_cast<u64 *>(target), found_here);
  RUN(1, 1, pointers, reinterpret_cast<u64 *>(target), found_here);
  return finish("transfers");
}
