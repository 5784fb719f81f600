// Locks: mutual exclusion, what clearing one completes, trying, and several locks.
#include "check.h"

enum { LOCK_COUNT = 5 };

static long locks[LOCK_COUNT], counters[LOCK_COUNT], holder;

// A read and a write that are not atomic together.
static void exclusive(int rounds) {
  subject = "exclusion";
  for (int i = 0; i < rounds; i++) {
    int const which = (me + i) % LOCK_COUNT, home = which % pe_count;
    shmem_set_lock(&locks[which]);
    long const value = shmem_long_g(&counters[which], home);
    shmem_long_p(&counters[which], value + 1, home);
    shmem_clear_lock(&locks[which]);
  }
  shmem_barrier_all();
  long expected[LOCK_COUNT] = {0};
  for (int pe = 0; pe < pe_count; pe++) {
    for (int i = 0; i < rounds; i++)
      expected[(pe + i) % LOCK_COUNT]++;
  }
  for (int i = 0; i < LOCK_COUNT; i++) {
    REQUIRE(shmem_long_g(&counters[i], i % pe_count) == expected[i]);
  }
  shmem_barrier_all();
}

static void tried(int rounds) {
  subject = "trying";
  long *const lock = symmetric_zeros(sizeof *lock);
  for (int got = 0; got < rounds;) {
    if (shmem_test_lock(lock) != 0)
      continue;
    got++;
    REQUIRE(shmem_long_atomic_swap(&holder, me + 1, 0) == 0);
    REQUIRE(shmem_long_atomic_swap(&holder, 0, 0) == me + 1);
    shmem_clear_lock(lock);
  }
  shmem_barrier_all();
  // Held by the last PE: nobody else gets it by trying.
  if (me == pe_count - 1)
    shmem_set_lock(lock);
  shmem_barrier_all();
  if (me != pe_count - 1)
    REQUIRE(shmem_test_lock(lock) == 1);
  shmem_barrier_all();
  if (me == pe_count - 1)
    shmem_clear_lock(lock);
  shmem_barrier_all();
  shmem_free(lock);
}

int main(int count, char **words) {
  start("locks");
  int const rounds = (int)word_or(count, words, 1, 100);
  exclusive(rounds);
  tried(rounds / 4 + 1);
  return finish();
}
