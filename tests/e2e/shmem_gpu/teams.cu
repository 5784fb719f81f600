// Teams and contexts of devices in kernels: their members, their synchronization, and that
// collectives of one team do not disturb another's.
#include "kernel_test.hpp"

using namespace kernel_test;

namespace {

// Member i of the team is PE start + i * step.
struct members {
  int start, step, count, me;
};

TND_KERNEL void use_team(
    shmem_team_t team, members of, u64 *target, u64 *source, u32 rounds, findings *to) {
  u32 const rank = simt::thread_rank_in_block();
  for (u32 round = 0; round < rounds; round++) {
    if (rank < 8)
      source[rank] = u64(shmemg_my_pe()) * 100 + rank + round;
    simt::block_barrier();
    EXPECT(
        to,
        0,
        shmemgx_uint64_fcollect_tg(
            team, reinterpret_cast<uint64_t *>(target), reinterpret_cast<uint64_t *>(source), 8));
    if (rank < u32(of.count) * 8)
      EXPECT(to, u64(of.start + of.step * int(rank / 8)) * 100 + rank % 8 + round, target[rank]);
    EXPECT(to, 0, shmemg_team_sync_tg(team));
    EXPECT(
        to,
        0,
        shmemgx_uint64_sum_reduce_tg(
            team, reinterpret_cast<uint64_t *>(target), reinterpret_cast<uint64_t *>(source), 1));
    u64 sum = 0;
    for (int i = 0; i < of.count; i++)
      sum += u64(of.start + of.step * i) * 100 + round;
    EXPECT(to, sum, target[0]);
    EXPECT(to, 0, shmemgx_team_barrier_tg(team));
  }
}

TND_KERNEL void use_context(shmem_ctx_t context, members of, u64 *target, findings *to) {
  int const next = (of.me + 1) % of.count, before = (of.me + of.count - 1) % of.count;
  u64 const mine = u64(of.me) + 10;
  shmemg_ctx_putmem(context, target, &mine, sizeof mine, next);
  shmemg_ctx_quiet(context);
  shmemg_ctx_uint64_atomic_add(context, reinterpret_cast<uint64_t *>(target + 1), 1, next);
  shmemg_uint64_wait_until(reinterpret_cast<uint64_t *>(target + 1), SHMEM_CMP_EQ, 1);
  EXPECT(to, u64(before) + 10, target[0]);
  u64 theirs = 0;
  shmemg_ctx_getmem(context, &theirs, target, sizeof theirs, next);
  EXPECT(to, mine, theirs);
}
TND_KERNEL void meet_all(findings *to) {
  EXPECT(to, 0, shmemg_team_sync_tg(SHMEM_DEVICE_TEAM_SHARED));
}

}  // namespace

int main() {
  start();
  u64 *const target = allocate<u64>(64 * 8), *const source = allocate<u64>(64);
  RUN(1, 64, meet_all, found_here);
  for (u32 again = 0; again < 3; again++) {
    members const all{0, 1, count, me};
    RUN(1, 64, use_team, SHMEM_DEVICE_TEAM_WORLD, all, target, source, 20u, found_here);
    for (int step = 1; step <= 2; step++) {
      int const start_at = step == 1 ? count / 2 : 0;
      int const size = step == 1 ? count - start_at : (count + 1) / 2;
      shmem_team_t team = SHMEM_TEAM_INVALID;
      REQUIRE(shmem_team_split_strided(
                  SHMEM_DEVICE_TEAM_WORLD, start_at, step, size, nullptr, 0, &team) == 0);
      int const mine = team == SHMEM_TEAM_INVALID ? -1 : shmem_team_my_pe(team);
      members const of{start_at, step, size, mine};
      std::vector<u64> const zeros(64 * 8);
      copy(target, zeros.data(), zeros.size() * sizeof(u64));
      shmem_barrier_all();
      if (mine >= 0) {
        simt::launch(simt::dim3(1),
                     simt::dim3(64),
                     use_team,
                     team,
                     of,
                     target,
                     source,
                     5 + again * 7,
                     found_here);
        synchronize(__LINE__);
        copy(target, zeros.data(), zeros.size() * sizeof(u64));
      }
      RUN(1, 64, meet_all, found_here);
      if (mine >= 0) {
        shmem_ctx_t context = SHMEM_CTX_INVALID;
        REQUIRE(shmem_team_create_ctx(team, SHMEM_DEVICE_CTX, &context) == 0);
        simt::launch(simt::dim3(1), simt::dim3(1), use_context, context, of, target, found_here);
        synchronize(__LINE__);
        shmem_ctx_destroy(context);
      }
      RUN(1, 64, meet_all, found_here);
      if (team != SHMEM_TEAM_INVALID)
        shmem_team_destroy(team);
    }
  }
  return finish("teams");
}
