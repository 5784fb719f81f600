// Non-blocking puts and gets of every type, and the guarantees of quiet and fence for them.
#include "check.h"

enum { PIECE = 4, COUNT = 8 * PIECE };

#define BODY "nonblocking.inc"
#include "each_rma_type.inc"

// Many small puts and a few large ones are outstanding at once. Only quiet completes them. The
// origin then sets a flag at the target, which checks the data.
static void many(int small_count, size_t large) {
  subject = "many at once";
  int const right = target_of(1), left = source_of(1);
  uint32_t *const small = symmetric_zeros(sizeof(uint32_t) * (size_t)small_count);
  unsigned char *const big = symmetric_zeros(2 * large);
  uint32_t *const own = allocate(sizeof(uint32_t) * (size_t)small_count);
  unsigned char *const source = allocate(2 * large);
  uint64_t *const flag = symmetric_zeros(sizeof *flag);
  for (uint64_t round = 1; round <= 3; round++) {
    fill(source, 2 * large, (unsigned)(me + round));
    for (int i = 0; i < small_count; i++)
      own[i] = (uint32_t)(me * 100000 + i) + (uint32_t)round;
    shmem_putmem_nbi(big, source, large, right);
    for (int i = 0; i < small_count; i++)
      shmem_putmem_nbi(small + i, own + i, sizeof *own, right);
    shmem_putmem_nbi(big + large, source + large, large, right);
    shmem_quiet();
    memset(source, 0, 2 * large);  // the source may be reused after quiet
    shmem_uint64_atomic_set(flag, round, right);
    shmem_uint64_wait_until(flag, SHMEM_CMP_EQ, round);
    REQUIRE(has_pattern(big, 2 * large, (unsigned)(left + round)));
    for (int i = 0; i < small_count; i++)
      REQUIRE(small[i] == (uint32_t)(left * 100000 + i) + (uint32_t)round);
    shmem_barrier_all();
  }
  shmem_free(flag);
  shmem_free(big);
  shmem_free(small);
  free(own);
  free(source);
}

// Puts to one word with a fence between any two: the last value remains.
static void fenced(int rounds) {
  subject = "fences";
  long *const words = symmetric_zeros(sizeof(long) * 2);
  for (long i = 1; i <= rounds; i++) {
    if (i % 2) {
      shmem_long_p(words, i, target_of(1));
    } else {
      shmem_long_put_nbi(words, &(long){i}, 1, target_of(1));
      shmem_quiet();  // the lifetime of the source ends here
    }
    shmem_fence();
  }
  shmem_long_p(words + 1, 1, target_of(1));
  shmem_long_wait_until(words + 1, SHMEM_CMP_NE, 0);
  REQUIRE(words[0] == rounds);
  shmem_barrier_all();
  shmem_free(words);
}

int main(int count, char **words) {
  start("nonblocking");
#define BODY "run.inc"
#include "each_rma_type.inc"
  many((int)word_or(count, words, 1, 3000), (size_t)word_or(count, words, 2, 1 << 20));
  fenced((int)word_or(count, words, 3, 1000));
  return finish();
}
