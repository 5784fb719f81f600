// A PE is killed while the others depend on it. usage: deaths CALL
#include <signal.h>
#include <unistd.h>

#include "check.h"

enum { SIZE = 1 << 20 };

int main(int count, char **arguments) {
  start("deaths");
  const char *const call = count > 1 ? arguments[1] : "";
  char *const heap = symmetric_zeros(SIZE);
  long *const word = symmetric_zeros(sizeof(long));
  long *const lock = symmetric_zeros(sizeof(long));
  char *const own = allocate(SIZE);
  int const victim = pe_count - 1;
  shmem_getmem(own, heap, 8, victim);
  if (me == victim && strcmp(call, "lock") == 0)
    shmem_set_lock(lock);
  shmem_barrier_all();
  if (me == 0)
    puts("ready");
  fflush(stdout);
  if (me == victim) {
    usleep(300000);
    kill(getpid(), SIGKILL);
  }
  if (strcmp(call, "barrier") == 0)
    shmem_barrier_all();
  if (strcmp(call, "wait_until") == 0)
    shmem_long_wait_until(word, SHMEM_CMP_NE, 0);
  if (strcmp(call, "lock") == 0)
    shmem_set_lock(lock);
  for (;;) {  // these calls return until the failure of the victim is detected
    if (strcmp(call, "get") == 0)
      shmem_getmem(own, heap, SIZE, victim);
    if (strcmp(call, "put") == 0) {
      shmem_putmem_nbi(heap, own, SIZE, victim);
      shmem_quiet();
    }
    if (strcmp(call, "atomic") == 0)
      (void)shmem_long_atomic_fetch_inc(word, victim);
    if (strcmp(call, "collective") == 0)
      shmem_long_sum_reduce(SHMEM_TEAM_WORLD, word, word, 1);
  }
}
