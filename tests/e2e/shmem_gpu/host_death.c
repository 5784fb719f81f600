// A PE dies while the others wait for a word in their devices' memory.
#include <signal.h>
#include <unistd.h>

#include "host_check.h"

int main(void) {
  start_device("host_death");
  long *const word = shmemg_calloc(1, sizeof(long));
  shmem_barrier_all();
  if (me == 0)
    puts("ready");
  fflush(stdout);
  if (me == pe_count - 1) {
    usleep(300000);
    kill(getpid(), SIGKILL);
  }
  shmem_long_wait_until(word, SHMEM_CMP_NE, 0);
}
