// Atomics on words of the device's memory, of every type, with results in memory of either kind.
#include "host_check.h"

static int next;
static void *word, *result;  // of the device
static char variable[16] __attribute__((aligned(16)));

#define SET(TYPE, VALUE)             \
  do {                               \
    TYPE const set = (TYPE)(VALUE);  \
    shmem_barrier_all();             \
    copy_in(word, &set, sizeof set); \
    shmem_barrier_all();             \
  } while (0)
#define RESULT(TYPE, AT, EXPECTED)     \
  do {                                 \
    TYPE seen;                         \
    shmem_quiet();                     \
    copy_out(&seen, AT, sizeof seen);  \
    REQUIRE(seen == (TYPE)(EXPECTED)); \
  } while (0)

#define EXTENDED(NAME, TYPE)                                        \
  do {                                                              \
    subject = #NAME;                                                \
    TYPE *const at = word;                                          \
    SET(TYPE, 5);                                                   \
    REQUIRE(shmem_##NAME##_atomic_fetch(at, next) == 5);            \
    REQUIRE(shmem_##NAME##_atomic_swap(at, 9, next) == 5);          \
    shmem_##NAME##_atomic_set(at, 11, next);                        \
    shmem_quiet();                                                  \
    REQUIRE(shmem_##NAME##_atomic_fetch(at, next) == 11);           \
    shmem_##NAME##_atomic_fetch_nbi((TYPE *)result, at, next);      \
    RESULT(TYPE, result, 11);                                       \
    shmem_##NAME##_atomic_swap_nbi((TYPE *)variable, at, 13, next); \
    RESULT(TYPE, variable, 11);                                     \
    shmem_barrier_all();                                            \
    RESULT(TYPE, at, 13);                                           \
  } while (0)

#define STANDARD(NAME, TYPE)                                                 \
  do {                                                                       \
    EXTENDED(NAME, TYPE);                                                    \
    TYPE *const at = word;                                                   \
    SET(TYPE, 5);                                                            \
    REQUIRE(shmem_##NAME##_atomic_compare_swap(at, 4, 7, next) == 5);        \
    REQUIRE(shmem_##NAME##_atomic_compare_swap(at, 5, 7, next) == 5);        \
    shmem_##NAME##_atomic_compare_swap_nbi((TYPE *)result, at, 7, 20, next); \
    RESULT(TYPE, result, 7);                                                 \
    REQUIRE(shmem_##NAME##_atomic_fetch_inc(at, next) == 20);                \
    shmem_##NAME##_atomic_inc(at, next);                                     \
    REQUIRE(shmem_##NAME##_atomic_fetch_add(at, 8, next) == 22);             \
    shmem_##NAME##_atomic_add(at, 10, next);                                 \
    shmem_##NAME##_atomic_fetch_add_nbi((TYPE *)variable, at, 1, next);      \
    RESULT(TYPE, variable, 40);                                              \
    shmem_##NAME##_atomic_fetch_inc_nbi((TYPE *)result, at, next);           \
    RESULT(TYPE, result, 41);                                                \
    REQUIRE(shmem_##NAME##_atomic_fetch(at, next) == 42);                    \
    SET(TYPE, 0);                                                            \
    for (int i = 0; i < 50; i++)                                             \
      shmem_##NAME##_atomic_add(at, 2, 0);                                   \
    for (int i = 0; i < 50; i++)                                             \
      (void)shmem_##NAME##_atomic_fetch_inc(at, 0);                          \
    shmem_barrier_all();                                                     \
    REQUIRE(shmem_##NAME##_atomic_fetch(at, 0) == (TYPE)(150 * pe_count));   \
  } while (0)

#define BITWISE(NAME, TYPE)                                           \
  do {                                                                \
    subject = #NAME;                                                  \
    TYPE *const at = word;                                            \
    SET(TYPE, 12);                                                    \
    REQUIRE(shmem_##NAME##_atomic_fetch_and(at, 10, next) == 12);     \
    REQUIRE(shmem_##NAME##_atomic_fetch_or(at, 3, next) == 8);        \
    REQUIRE(shmem_##NAME##_atomic_fetch_xor(at, 1, next) == 11);      \
    shmem_##NAME##_atomic_and(at, 14, next);                          \
    shmem_##NAME##_atomic_or(at, 16, next);                           \
    shmem_##NAME##_atomic_xor(at, 3, next);                           \
    shmem_##NAME##_atomic_fetch_xor_nbi((TYPE *)result, at, 1, next); \
    RESULT(TYPE, result, 25);                                         \
    REQUIRE(shmem_##NAME##_atomic_fetch(at, next) == 24);             \
  } while (0)

int main(void) {
  start_device("host_atomics");
  next = (me + 1) % pe_count;
  word = symmetric_device(8);
  result = symmetric_device(8);
  AMO_TYPES(STANDARD);
  EXTENDED(float, float);
  EXTENDED(double, double);
  BITWISE(uint, unsigned);
  BITWISE(ulong, unsigned long);
  BITWISE(ulonglong, unsigned long long);
  BITWISE(int32, int32_t);
  BITWISE(int64, int64_t);
  BITWISE(uint32, uint32_t);
  BITWISE(uint64, uint64_t);
  // A word of the host, whose old value goes to the device.
  subject = "host";
  long *const host = symmetric_zeros(sizeof(long));
  shmem_long_atomic_fetch_add_nbi((long *)result, host, 5, next);
  RESULT(long, result, 0);
  shmem_barrier_all();
  REQUIRE(*host == 5);
  shmem_barrier_all();
  SET(uint64_t, 1);
  shmem_signal_add(word, 4, next);
  shmem_quiet();
  shmem_barrier_all();
  REQUIRE(shmem_signal_fetch(word) == 5);
  shmem_barrier_all();
  shmem_signal_set(word, 9, next);
  shmem_quiet();
  shmem_barrier_all();
  REQUIRE(shmem_signal_fetch(word) == 9);
  return finish();
}
