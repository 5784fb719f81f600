// PEs whose devices are unmapped: host memory works as always, teams of devices have only such
// members as they must, and transfers to another device go through memory of both hosts.
#include "host_check.h"

int main(void) {
  start_device("host_apart");
  int const next = (me + 1) % pe_count;
  long *const host = symmetric_zeros(4 * sizeof(long)), *const device =
                                                            shmemg_calloc(4, sizeof(long));
  REQUIRE(shmem_team_n_pes(SHMEM_DEVICE_TEAM_WORLD) == pe_count);
  REQUIRE(shmem_team_n_pes(SHMEM_DEVICE_TEAM_SHARED) == 1 &&
          shmem_team_my_pe(SHMEM_DEVICE_TEAM_SHARED) == 0);
  REQUIRE(shmem_ptr(device, next) == NULL && shmem_ptr(device, me) == (void *)device);
  // From and to the own device, through the fabric.
  long const mine = me + 1;
  long seen = 0;
  copy_in(device, &mine, sizeof mine);
  shmem_putmem(host, device, sizeof(long), next);
  shmem_barrier_all();
  REQUIRE(*host == (me + pe_count - 1) % pe_count + 1);
  shmem_getmem(device + 1, host, sizeof(long), next);
  copy_out(&seen, device + 1, sizeof seen);
  REQUIRE(seen == mine);
  REQUIRE(shmem_long_sum_reduce(SHMEM_DEVICE_TEAM_WORLD, host + 1, host, 1) == 0);
  REQUIRE(host[1] == (long)pe_count * (pe_count + 1) / 2);
  shmem_barrier_all();
  long *const there = shmemg_calloc(8, sizeof(long));
  shmem_long_p(there, 10 + me, next);
  shmem_long_atomic_inc(there + 1, next);
  shmem_long_atomic_add(there + 1, 5, next);
  shmem_quiet();
  REQUIRE(shmem_long_g(there, next) == 10 + me);
  REQUIRE(shmem_long_atomic_fetch_add(there + 1, 1, next) == 6);
  shmem_barrier_all();
  REQUIRE(shmem_long_g(there + 1, me) == 7);
  long blocks[2] = {100 + me, 200 + me};
  copy_in(there + 2, blocks, sizeof blocks);
  REQUIRE(pe_count != 2 || shmem_long_alltoall(SHMEM_TEAM_WORLD, there + 4, there + 2, 1) == 0);
  copy_out(blocks, there + 4, sizeof blocks);
  REQUIRE(pe_count != 2 || (blocks[0] == 100 * (me + 1) && blocks[1] == 100 * (me + 1) + 1));
  return finish();
}
