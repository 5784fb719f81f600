// PEs whose devices do not reach one another: the host's memory works as ever, teams of devices are as small as they must be, and what
// concerns the other's device, by the argument, ends the job with a message.
#include "host_check.h"

int main(int count, char **arguments) {
  start_device("host_apart");
  int const next = (me + 1) % pe_count;
  long *const host = symmetric_zeros(4 * sizeof(long)), *const device = shmemg_calloc(4, sizeof(long));
  REQUIRE(shmem_team_n_pes(SHMEM_DEVICE_TEAM_WORLD) == pe_count);
  REQUIRE(shmem_team_n_pes(SHMEM_DEVICE_TEAM_SHARED) == 1 && shmem_team_my_pe(SHMEM_DEVICE_TEAM_SHARED) == 0);
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
  if (count > 1 && strcmp(arguments[1], "put") == 0) shmem_long_p(device, 1, next);
  if (count > 1 && strcmp(arguments[1], "atomic") == 0) shmem_long_atomic_inc(device, next);
  if (count > 1 && strcmp(arguments[1], "alltoall") == 0) (void)shmem_long_alltoall(SHMEM_TEAM_WORLD, device, host, 1);
  return finish();
}
