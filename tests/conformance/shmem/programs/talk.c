// PEs exchange messages until a file appears. usage: talk PROGRESS STOP [quiet]: the first PE
// writes the number of the round to one file, and ends all when the other exists. With "quiet",
// each waits for what it sent before it waits for what comes.
#include <unistd.h>

#include "check.h"

static void report(const char *path, long round) {
  char other[4096];
  snprintf(other, sizeof other, "%s.new", path);
  FILE *const file = fopen(other, "w");
  REQUIRE(file != NULL);
  fprintf(file, "%ld\n", round);
  fclose(file);
  REQUIRE(rename(other, path) == 0);
}

int main(int count, char **words) {
  if (count < 3)
    return 2;
  start("talk");
  enum { SIZE = 100000 };
  unsigned char *const area = symmetric_zeros(SIZE), *const own = allocate(SIZE);
  uint64_t *const signal = symmetric_zeros(sizeof *signal);
  int *const over = symmetric_zeros(sizeof *over), *const stop = symmetric_zeros(sizeof *stop);
  for (uint64_t round = 1; !*over; round++) {
    size_t const size = round % 5 ? 300 : SIZE;
    fill(own, size, (unsigned)(me + round));
    shmem_putmem_signal(area, own, size, signal, round, SHMEM_SIGNAL_SET, target_of(1));
    if (count > 3)
      shmem_quiet();
    shmem_signal_wait_until(signal, SHMEM_CMP_EQ, round);
    REQUIRE(has_pattern(area, size, (unsigned)(source_of(1) + round)));
    unsigned char byte = 0;
    shmem_getmem(&byte, area, 1, target_of(1));
    REQUIRE(byte == pattern(0, (unsigned)(me + round)));
    if (me == 0) {
      report(words[1], (long)round);
      *stop = access(words[2], F_OK) == 0;
    }
    shmem_barrier_all();
    REQUIRE(shmem_int_broadcast(SHMEM_TEAM_WORLD, over, stop, 1, 0) == 0);
    usleep(1000);
  }
  return finish();
}
