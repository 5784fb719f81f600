// The system gives this process no more memory, which a call needs. usage: no_memory CALL
// The last PE prints "limited" before it calls.
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 4 << 20 };

// What the heaps of malloc have reserved counts when it is written to: so it is data that are
// limited, not addresses. The pieces that malloc still has are taken.
static void limit_memory(void) {
  size_t pages = 0;
  FILE *const file = fopen("/proc/self/statm", "r");
  REQUIRE(file != NULL && fscanf(file, "%*u %*u %*u %*u %*u %zu", &pages) == 1);
  fclose(file);
  struct rlimit limit;
  REQUIRE(getrlimit(RLIMIT_DATA, &limit) == 0);
  limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + (64 << 10);
  REQUIRE(setrlimit(RLIMIT_DATA, &limit) == 0);
  for (size_t size = 8 << 20; size >= 128 << 10; size /= 2) {
    while (malloc(size) != NULL)
      continue;
  }
}

int main(int count, char **arguments) {
  const char *const call = count > 1 ? arguments[1] : "";
  start("no_memory");
  long *const source = shmem_malloc(2 * COUNT * sizeof(long)), *const target = source + COUNT;
  REQUIRE(source != NULL);
  shmem_barrier_all();
  if (me == pe_count - 1) {
    limit_memory();
    puts("limited");
    fflush(stdout);
  }
  if (strcmp(call, "reduce") == 0)
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, target, source, COUNT);
  if (strcmp(call, "exscan") == 0)
    shmem_long_sum_exscan(SHMEM_TEAM_WORLD, target, source, COUNT);
  if (strcmp(call, "alltoalls") == 0)
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, target, source, 1, 2, COUNT / 16);
  return finish();
}
