// Litmus tests of the memory model: which effects of stores, puts, fences, quiets, signals and
// atomics other PEs may observe. Each test repeats its pattern many times.
#include "check.h"

static long *data, *flag, *third;

static void turn_begins(void) {
  data[0] = 0;
  flag[0] = 0;
  third[0] = 0;
  shmem_barrier_all();
}

// put, fence, put: a PE that sees the second put sees the first. Every PE sends to its neighbour by
// p, put_nbi and atomics.
static void message_passing(int rounds) {
  subject = "message passing";
  turn_begins();
  int const right = target_of(1);
  for (long i = 1; i <= rounds; i++) {
    long const value = i * 3;
    switch (i % 3) {
      case 0:
        shmem_long_p(data, value, right);
        break;
      case 1:
        shmem_long_put_nbi(data, &value, 1, right);
        break;
      default:
        shmem_long_atomic_set(data, value, right);
    }
    shmem_fence();
    if (i % 2)
      shmem_long_p(flag, i, right);
    else
      shmem_long_atomic_set(flag, i, right);
    shmem_long_wait_until(flag, SHMEM_CMP_GE, i);
    REQUIRE(shmem_long_g(data, me) >= i * 3);
    shmem_quiet();
    if (i % 64 == 0)
      shmem_barrier_all();
  }
  shmem_barrier_all();
}

// Order across three PEs: each puts data to a third PE, is quiet, then sets a flag at its right
// neighbour, which gets the data from the third PE.
static void through_a_third(int rounds) {
  subject = "through a third";
  turn_begins();
  int const right = target_of(1), other = (me + pe_count / 2 + 1) % pe_count, left = source_of(1);
  int const others_of_left = (left + pe_count / 2 + 1) % pe_count;
  for (long i = 1; i <= rounds; i++) {
    shmem_long_p(data, i, other);
    shmem_quiet();
    shmem_long_p(flag, i, right);
    shmem_long_wait_until(flag, SHMEM_CMP_GE, i);
    REQUIRE(shmem_long_g(data, others_of_left) >= i);
  }
  shmem_barrier_all();
}

// Store buffering: each PE of a pair writes, is quiet, and reads what the other wrote. At least one
// of them must see the other's write. A PE without a partner only takes part in the barriers.
static void store_buffering(int rounds) {
  subject = "store buffering";
  int const other = me ^ 1, paired = other < pe_count;
  long *const seen = third;
  for (int i = 0; i < rounds; i++) {
    turn_begins();
    if (paired) {
      if (i % 2)
        shmem_long_p(data, 1, other);
      else
        shmem_long_atomic_set(data, 1, other);
      shmem_quiet();
      // The other PE writes to this PE's memory. An atomic fetch keeps the compiler from using a
      // value in a register.
      seen[0] = shmem_long_atomic_fetch(data, me);
    }
    shmem_barrier_all();
    if (paired)
      REQUIRE(seen[0] == 1 || shmem_long_g(seen, other) == 1);
    shmem_barrier_all();
  }
}

// Data of many sizes with a signal: a PE that sees the signal sees every byte.
static void signalled(int rounds) {
  subject = "signalled";
  enum { LARGEST = 20000 };
  unsigned char *const area = symmetric_zeros(LARGEST), *const own = allocate(LARGEST);
  uint64_t *const signal = symmetric_zeros(sizeof *signal), *const answer =
                                                                symmetric_zeros(sizeof *answer);
  int const right = target_of(1), left = source_of(1);
  for (uint64_t i = 1; i <= (uint64_t)rounds; i++) {
    size_t const size = (size_t)(i * 7919 % (i % 8 ? 200 : LARGEST)) + 1;
    fill(own, size, (unsigned)(me + i));
    if (i % 2)
      shmem_putmem_signal(area, own, size, signal, i, SHMEM_SIGNAL_SET, right);
    else
      shmem_putmem_signal_nbi(area, own, size, signal, 1, SHMEM_SIGNAL_ADD, right);
    shmem_signal_wait_until(signal, SHMEM_CMP_EQ, i);
    REQUIRE(has_pattern(area, size, (unsigned)(left + i)));
    shmem_uint64_atomic_set(answer, i, left);  // the area may be written again
    shmem_uint64_wait_until(answer, SHMEM_CMP_EQ, i);
    shmem_quiet();
  }
  shmem_barrier_all();
  shmem_free(answer);
  shmem_free(signal);
  shmem_free(area);
  free(own);
}

// Coherence: two PEs write one word and all read it. No reader sees an older value after a newer
// one. (OpenSHMEM guarantees no order of two words that all readers agree on.)
static void coherence(int rounds) {
  subject = "coherence";
  turn_begins();
  long last = 0;
  for (int i = 0; i < rounds; i++) {
    if (me < 2)
      shmem_long_atomic_inc(data, 0);
    long const now = shmem_long_atomic_fetch(data, 0);
    REQUIRE(now >= last);
    last = now;
    if (i % 100 == 0)
      shmem_quiet();
  }
  shmem_barrier_all();
  REQUIRE(shmem_long_atomic_fetch(data, 0) == (long)rounds * (pe_count < 2 ? 1 : 2));
  shmem_barrier_all();
}

// Every PE writes to others before a barrier, and after it reads what they wrote. Where memory is
// mapped, it also writes by plain stores.
static void barriers(int rounds) {
  subject = "barriers";
  long *const row = symmetric_zeros(sizeof(long) * (size_t)pe_count);
  for (long i = 1; i <= rounds; i++) {
    for (int step = 0; step < STEP_COUNT; step++) {
      long *const mapped = i % 2 ? shmem_ptr(row + me, target_of(step)) : NULL;
      if (mapped != NULL)
        *mapped = i * 1000 + me;
      else {
        shmem_long_put_nbi(row + me, &(long){i * 1000 + me}, 1, target_of(step));
        shmem_quiet();
      }
    }
    shmem_barrier_all();
    for (int step = 0; step < STEP_COUNT; step++)
      REQUIRE(row[source_of(step)] == i * 1000 + source_of(step));
    shmem_sync_all();
  }
  shmem_free(row);
}

int main(int count, char **words) {
  start("litmus");
  int const rounds = (int)word_or(count, words, 1, 2000);
  data = symmetric_zeros(sizeof(long));
  flag = symmetric_zeros(sizeof(long));
  third = symmetric_zeros(sizeof(long));
  message_passing(rounds);
  through_a_third(rounds / 2);
  store_buffering(rounds / 4);
  signalled(rounds / 4);
  coherence(rounds);
  barriers(rounds / 8);
  shmem_free(third);
  shmem_free(flag);
  shmem_free(data);
  return finish();
}
