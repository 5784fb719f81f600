// Waiting and ordering in kernels: what a PE has seen determines what else it must see.
#include "kernel_test.hpp"

using namespace kernel_test;

namespace {

// Waits and tests of each type and comparison, on words that the previous PE sets.
#define CHECK_WAIT(NAME, TYPE, A)                                       \
  {                                                                     \
    TYPE *const at = reinterpret_cast<TYPE *>(words) + 2;               \
    if (rank == 0)                                                      \
      shmemg_##NAME##_atomic_set(at, 0, self);                          \
    (void)shmemgx_barrier_all_tg();                                     \
    EXPECT(to, 1, shmemg_##NAME##_test_tg(at, SHMEM_CMP_EQ, 0));        \
    EXPECT(to, 0, shmemg_##NAME##_test_tg(at, SHMEM_CMP_NE, 0));        \
    EXPECT(to, 1, shmemg_##NAME##_test_htg(at, SHMEM_CMP_LE, 0));       \
    EXPECT(to, 0, shmemg_##NAME##_test_htg(at, SHMEM_CMP_GT, 0));       \
    EXPECT(to, 1, shmemg_##NAME##_test(at, SHMEM_CMP_LT, 1));           \
    EXPECT(to, 0, shmemg_##NAME##_test(at, SHMEM_CMP_GE, 1));           \
    (void)shmemgx_barrier_all_tg();                                     \
    if (rank == 0)                                                      \
      shmemg_##NAME##_p(at, 5, next);                                   \
    shmemg_##NAME##_wait_until_tg(at, SHMEM_CMP_EQ, 5);                 \
    shmemg_##NAME##_wait_until_htg(at, SHMEM_CMP_GT, 4);                \
    shmemg_##NAME##_wait_until(at, SHMEM_CMP_NE, 4);                    \
    EXPECT(to, 0, shmemgx_##NAME##_wait_until_tg(at, SHMEM_CMP_GE, 5)); \
    EXPECT(to, 5, *at);                                                 \
    (void)shmemgx_barrier_all_tg();                                     \
    if (rank == 0)                                                      \
      shmemg_##NAME##_p(at, 2, next);                                   \
    shmemg_##NAME##_wait_until_tg(at, SHMEM_CMP_LT, 5);                 \
    shmemg_##NAME##_wait_until_tg(at, SHMEM_CMP_LE, 2);                 \
    (void)shmemgx_barrier_all_tg();                                     \
  }
TND_KERNEL void waits(u64 *words, findings *to) {
  int const self = shmemg_my_pe(), next = (self + 1) % shmemg_n_pes();
  u32 const rank = simt::thread_rank_in_block();
  SHMEM_TABLE_AMO(CHECK_WAIT, )
}

// put, fence, flag: a PE that sees the flag sees the bytes.
struct passed {
  u64 data[64];
  uint64_t flag, answer;
};
template <class Group>
TND_DEVICE void pass_messages(Group group, passed *boxes, u64 *source, u32 rounds, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes(), next = (self + 1) % all,
            before = (self + all - 1) % all;
  passed &box = boxes[0];
  for (u64 round = 1; round <= rounds; round++) {
    for (u32 i = group.rank(); i < 64; i += group.size())
      source[i] = round * 1000 + i + u64(self) * 1000000;
    switch (round % 3) {
      case 0:
        (void)tanada::shmemg::put(group, box.data, source, sizeof box.data, next);
        (void)tanada::shmemg::fence(group);
        if (group.rank() == 0)
          shmemg_uint64_p(&box.flag, round, next);
        break;
      case 1:
        (void)tanada::shmemg::put_signal(
            group, box.data, source, sizeof box.data, &box.flag, round, SHMEM_SIGNAL_SET, next);
        break;
      default:
        (void)tanada::shmemg::put_signal(
            group, box.data, source, sizeof box.data, &box.flag, 1, SHMEM_SIGNAL_ADD, next);
    }
    EXPECT(to, 0, int(tanada::shmemg::wait_until(group, &box.flag, SHMEM_CMP_GE, uint64_t(round))));
    for (u32 i = group.rank(); i < 64; i += group.size())
      EXPECT(to, round * 1000 + i + u64(before) * 1000000, box.data[i]);
    group.sync();
    if (group.rank() == 0)
      shmemgx_signal_add(&box.answer, 1, before);
    EXPECT(
        to, 0, int(tanada::shmemg::wait_until(group, &box.answer, SHMEM_CMP_GE, uint64_t(round))));
  }
  (void)tanada::shmemg::barrier(group);
}
TND_KERNEL void messages_by_thread(passed *boxes, u64 *source, u32 rounds, findings *to) {
  pass_messages(tanada::this_thread{}, boxes, source, rounds, to);
}
TND_KERNEL void messages_by_warp(passed *boxes, u64 *source, u32 rounds, findings *to) {
  pass_messages(tanada::this_warp{}, boxes, source, rounds, to);
}
TND_KERNEL void messages_by_block(passed *boxes, u64 *source, u32 rounds, findings *to) {
  pass_messages(tanada::this_block{}, boxes, source, rounds, to);
}
// Two words that one PE writes in order: no PE sees the second without the first.
TND_KERNEL void watch_two(u64 *words, u32 rounds, findings *to) {
  int const self = shmemg_my_pe(), next = (self + 1) % shmemg_n_pes();
  if (simt::thread_rank_in_block() == 0) {
    for (u64 round = 1; round <= rounds; round++) {
      shmemg_uint64_p(reinterpret_cast<uint64_t *>(words), round, next);
      if (round % 2 == 0)
        shmemg_fence();
      else
        shmemg_quiet();
      shmemg_uint64_p(reinterpret_cast<uint64_t *>(words + 16), round, next);
      shmemg_fence();
    }
  } else if (simt::thread_rank_in_block() == 32) {
    for (u64 later = 0; later < rounds;) {
      later = shmemg_signal_fetch(reinterpret_cast<uint64_t *>(words + 16));
      u64 const earlier = shmemg_signal_fetch(reinterpret_cast<uint64_t *>(words));
      EXPECT(to, 1, earlier >= later);
      simt::pause();
    }
  }
  simt::block_barrier();
  (void)shmemgx_barrier_all_tg();
}
// Store buffering: both store, then load; at least one sees the other's store. By pairs of PEs;
// words of a round are used once.
TND_KERNEL void store_and_look(u64 *stored, u64 *seen, u32 rounds) {
  int const self = shmemg_my_pe(), other = self ^ 1;
  bool const plays = other < shmemg_n_pes();
  for (u32 round = 0; round < rounds; round++) {
    (void)shmemg_sync_all();
    if (!plays)
      continue;
    // The even PE's stores are in the odd PE's memory.
    shmemg_uint64_p(reinterpret_cast<uint64_t *>(stored + round), 1, other);
    shmemg_quiet();
    seen[round] = shmemg_uint64_g(reinterpret_cast<uint64_t *>(stored + round), self);
  }
  (void)shmemgx_barrier_all();
}
TND_KERNEL void check_seen(u64 *seen, u32 rounds, findings *to) {
  int const self = shmemg_my_pe(), other = self ^ 1;
  if (other >= shmemg_n_pes())
    return;
  for (u32 round = 0; round < rounds; round++) {
    u64 const theirs = shmemg_uint64_g(reinterpret_cast<uint64_t *>(seen + round), other);
    EXPECT(to, 1, theirs + seen[round] >= 1);
  }
}
// All PEs synchronize very often; none is ever a step ahead of one that has not arrived.
TND_KERNEL void meet(u64 *steps, u32 rounds, findings *to) {
  int const self = shmemg_my_pe(), all = shmemg_n_pes();
  for (u64 round = 1; round <= rounds; round++) {
    if (simt::thread_rank_in_block() < u32(all))
      shmemg_uint64_p(
          reinterpret_cast<uint64_t *>(steps + self), round, int(simt::thread_rank_in_block()));
    EXPECT(to,
           0,
           round % 3 == 0   ? shmemgx_barrier_all_tg()
           : round % 3 == 1 ? shmemg_sync_all_tg()
                            : shmemg_team_sync_tg(SHMEM_DEVICE_TEAM_WORLD));
    for (int pe = int(simt::thread_rank_in_block()); pe < all;
         pe += int(simt::block_thread_count())) {
      u64 const there = shmemg_signal_fetch(reinterpret_cast<uint64_t *>(steps + pe));
      EXPECT(to, 1, there == round || there == round + 1);
    }
    simt::block_barrier();
  }
}

}  // namespace

int main(int argc, char **argv) {
  start();
  u32 const rounds = argc > 1 ? u32(std::atoi(argv[1])) : 300;
  u64 *const words = allocate<u64>(64), *const source = allocate<u64>(64),
             *const stored = allocate<u64>(rounds), *const seen = allocate<u64>(rounds);
  passed *const boxes = allocate<passed>(1);
  RUN(1, 64, waits, words, found_here);
  RUN(1, 1, messages_by_thread, boxes, source, rounds, found_here);
  passed const empty{};
  copy(boxes, &empty, sizeof empty);
  RUN(1, 32, messages_by_warp, boxes, source, rounds, found_here);
  copy(boxes, &empty, sizeof empty);
  RUN(1, 96, messages_by_block, boxes, source, rounds, found_here);
  u64 const zeros[64] = {};
  copy(words, zeros, sizeof zeros);
  RUN(1, 64, watch_two, words, rounds, found_here);
  RUN(1, 1, store_and_look, stored, seen, rounds);
  RUN(1, 1, check_seen, seen, rounds, found_here);
  copy(words, zeros, sizeof zeros);
  RUN(1, 64, meet, words, rounds, found_here);
  return finish("waits");
}
