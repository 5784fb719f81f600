// Waits and tests on words of the device's memory, for every type that has them.
#include "host_check.h"

enum { COUNT = 8 };
static int next;
static void *shared;  // of the device

static void clear(size_t size) {
  char zeros[COUNT * 8] = {0};
  shmem_barrier_all();
  copy_in(shared, zeros, size * COUNT);
  shmem_barrier_all();
}

#define WAITS(NAME, TYPE)                                                                          \
  do {                                                                                             \
    subject = #NAME;                                                                               \
    TYPE *const words = shared;                                                                    \
    TYPE const each[COUNT] = {1, 2, 3, 4, 5, 6, 7, 8};                                             \
    int const left_out[COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};                                          \
    size_t indices[COUNT];                                                                         \
    clear(sizeof(TYPE));                                                                           \
    REQUIRE(!shmem_##NAME##_test(words, SHMEM_CMP_NE, 0));                                         \
    REQUIRE(!shmem_##NAME##_test_all(words, COUNT, NULL, SHMEM_CMP_EQ, 7));                        \
    REQUIRE(shmem_##NAME##_test_any(words, COUNT, NULL, SHMEM_CMP_EQ, 7) == SIZE_MAX);             \
    shmem_barrier_all();                                                                           \
    shmem_##NAME##_p(words + 2, 7, next);                                                          \
    shmem_##NAME##_wait_until(words + 2, SHMEM_CMP_EQ, 7);                                         \
    REQUIRE(shmem_##NAME##_test(words + 2, SHMEM_CMP_GT, 6));                                      \
    REQUIRE(shmem_##NAME##_wait_until_any(words, COUNT, NULL, SHMEM_CMP_EQ, 7) == 2);              \
    REQUIRE(shmem_##NAME##_wait_until_some(words, COUNT, indices, NULL, SHMEM_CMP_EQ, 7) == 1);    \
    REQUIRE(indices[0] == 2);                                                                      \
    REQUIRE(shmem_##NAME##_test_any(words, COUNT, NULL, SHMEM_CMP_EQ, 7) == 2);                    \
    REQUIRE(shmem_##NAME##_test_some(words, COUNT, indices, left_out, SHMEM_CMP_EQ, 0) == 3);      \
    shmem_barrier_all();                                                                           \
    shmem_##NAME##_put_nbi(words, each, COUNT, next);                                              \
    shmem_quiet();                                                                                 \
    shmem_##NAME##_wait_until_all(words, COUNT, NULL, SHMEM_CMP_GE, 1);                            \
    shmem_##NAME##_wait_until_all_vector(words, COUNT, NULL, SHMEM_CMP_EQ, each);                  \
    REQUIRE(shmem_##NAME##_test_all_vector(words, COUNT, NULL, SHMEM_CMP_EQ, each));               \
    REQUIRE(shmem_##NAME##_wait_until_any_vector(words, COUNT, NULL, SHMEM_CMP_EQ, each) < COUNT); \
    REQUIRE(shmem_##NAME##_wait_until_some_vector(                                                 \
                words, COUNT, indices, NULL, SHMEM_CMP_EQ, each) == COUNT);                        \
    REQUIRE(shmem_##NAME##_test_any_vector(words, COUNT, left_out, SHMEM_CMP_EQ, each) % 2 == 0);  \
    REQUIRE(shmem_##NAME##_test_some_vector(                                                       \
                words, COUNT, indices, left_out, SHMEM_CMP_EQ, each) == 4);                        \
  } while (0)

// A ring of tokens by atomics: each PE waits for the previous one.
static void ring(void) {
  subject = "ring";
  long *const word = shared;
  clear(sizeof(long));
  for (int round = 1; round <= 50; round++) {
    if (me == 0)
      shmem_long_atomic_inc(word, next);
    shmem_long_wait_until(word, SHMEM_CMP_GE, round);
    if (me != 0)
      shmem_long_atomic_inc(word, next);
  }
  shmem_barrier_all();
}

int main(void) {
  start_device("host_waits");
  next = (me + 1) % pe_count;
  shared = symmetric_device(COUNT * 8);
  AMO_TYPES(WAITS);
  ring();
  subject = "old";
  clear(8);
  shmem_long_p(shared, 3, next);
  shmem_long_wait(shared, 0);
  shmem_wait(shared, 0);
  (shmem_wait_until)(shared, SHMEM_CMP_EQ, 3);
  clear(8);
  shmem_short_p(shared, 3, next);
  shmem_short_wait_until(shared, SHMEM_CMP_EQ, 3);
  return finish();
}
