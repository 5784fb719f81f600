// C11's type-generic forms, with and without a context.
#include "check.h"

enum { COUNT = 6 };

#define MEMORY(TYPE)                                                                        \
  do {                                                                                      \
    subject = #TYPE;                                                                        \
    static TYPE target[COUNT], more[COUNT], strided[2 * COUNT], flat[COUNT];                \
    static uint64_t signal;                                                                 \
    TYPE own[COUNT], got[COUNT];                                                            \
    for (int i = 0; i < COUNT; i++)                                                         \
      own[i] = (TYPE)value_of(me, 0, (size_t)i);                                            \
    shmem_put(target, own, COUNT - 1, right);                                               \
    shmem_p(target + COUNT - 1, own[COUNT - 1], right);                                     \
    shmem_put_nbi(SHMEM_CTX_DEFAULT, more, own, COUNT - 1, right);                          \
    shmem_p(SHMEM_CTX_DEFAULT, more + COUNT - 1, own[COUNT - 1], right);                    \
    shmem_iput(strided, own, 2, 1, COUNT, right);                                           \
    shmem_quiet();                                                                          \
    shmem_put_signal(flat, own, COUNT, &signal, 1, SHMEM_SIGNAL_SET, right);                \
    shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 1);                                      \
    shmem_barrier_all();                                                                    \
    for (int i = 0; i < COUNT; i++) {                                                       \
      TYPE const expected = (TYPE)value_of(left, 0, (size_t)i);                             \
      REQUIRE(target[i] == expected && more[i] == expected && strided[2 * i] == expected && \
              flat[i] == expected);                                                         \
    }                                                                                       \
    shmem_get(got, target, COUNT, right);                                                   \
    REQUIRE(memcmp(got, own, sizeof got) == 0 || sizeof(TYPE) == 16);                       \
    shmem_get_nbi(SHMEM_CTX_DEFAULT, got, more, COUNT, right);                              \
    shmem_quiet();                                                                          \
    REQUIRE(got[1] == own[1] && shmem_g(target, right) == own[0] &&                         \
            shmem_g(SHMEM_CTX_DEFAULT, target, right) == own[0]);                           \
    shmem_iget(got, strided, 1, 2, COUNT, right);                                           \
    REQUIRE(got[COUNT - 1] == own[COUNT - 1]);                                              \
    shmem_barrier_all(); /* a neighbour may still get from `more` */                        \
    shmem_broadcast(SHMEM_TEAM_WORLD, more, target, COUNT, 0);                              \
    REQUIRE(more[2] == (TYPE)value_of(pe_count - 1, 0, 2));                                 \
    shmem_sync(SHMEM_TEAM_WORLD);                                                           \
    shmem_max_reduce(SHMEM_TEAM_WORLD, more, target, 1);                                    \
    shmem_sync(SHMEM_TEAM_WORLD);                                                           \
    shmem_sum_reduce(SHMEM_TEAM_WORLD, more, target, 1);                                    \
    shmem_barrier_all();                                                                    \
  } while (0)

#define ATOMIC(TYPE)                                                                     \
  do {                                                                                   \
    subject = #TYPE;                                                                     \
    static TYPE word;                                                                    \
    TYPE got = 0;                                                                        \
    size_t index = 9;                                                                    \
    shmem_atomic_set(&word, (TYPE)4, right);                                             \
    shmem_fence();                                                                       \
    shmem_atomic_add(SHMEM_CTX_DEFAULT, &word, (TYPE)2, right);                          \
    shmem_atomic_inc(&word, right);                                                      \
    REQUIRE(shmem_atomic_fetch_add(&word, (TYPE)1, right) == 7 &&                        \
            shmem_atomic_fetch_inc(&word, right) == 8);                                  \
    REQUIRE(shmem_atomic_compare_swap(&word, (TYPE)9, (TYPE)20, right) == 9);            \
    REQUIRE(shmem_atomic_swap(SHMEM_CTX_DEFAULT, &word, (TYPE)21, right) == 20);         \
    shmem_atomic_fetch_nbi(&got, &word, right);                                          \
    shmem_quiet();                                                                       \
    REQUIRE(got == 21 && shmem_atomic_fetch(SHMEM_CTX_DEFAULT, &word, right) == 21);     \
    shmem_barrier_all();                                                                 \
    shmem_wait_until(&word, SHMEM_CMP_EQ, (TYPE)21);                                     \
    REQUIRE(shmem_test(&word, SHMEM_CMP_GE, (TYPE)20) &&                                 \
            shmem_test_all(&word, 1, NULL, SHMEM_CMP_LT, (TYPE)30));                     \
    REQUIRE(shmem_wait_until_any(&word, 1, NULL, SHMEM_CMP_NE, (TYPE)3) == 0);           \
    REQUIRE(shmem_wait_until_some(&word, 1, &index, NULL, SHMEM_CMP_NE, (TYPE)3) == 1 && \
            index == 0);                                                                 \
    shmem_barrier_all();                                                                 \
  } while (0)

int main(void) {
  start("generics");
  int const right = target_of(1), left = source_of(1);
  MEMORY(float);
  MEMORY(double);
  MEMORY(long double);
  MEMORY(char);
  MEMORY(signed char);
  MEMORY(short);
  MEMORY(int);
  MEMORY(long);
  MEMORY(long long);
  MEMORY(unsigned char);
  MEMORY(unsigned short);
  MEMORY(unsigned int);
  MEMORY(unsigned long);
  MEMORY(unsigned long long);
  MEMORY(int8_t);
  MEMORY(uint16_t);
  MEMORY(size_t);
  MEMORY(ptrdiff_t);
  ATOMIC(int);
  ATOMIC(long);
  ATOMIC(long long);
  ATOMIC(unsigned int);
  ATOMIC(unsigned long);
  ATOMIC(unsigned long long);
  ATOMIC(int64_t);
  ATOMIC(uint32_t);
  ATOMIC(size_t);
  static unsigned int bits = 6;
  shmem_atomic_or(&bits, 1u, right);
  REQUIRE(shmem_atomic_fetch_and(SHMEM_CTX_DEFAULT, &bits, 3u, right) == 7 &&
          shmem_atomic_fetch_xor(&bits, 1u, right) == 3);
  static double real;
  shmem_atomic_set(&real, 2.5, right);
  shmem_fence();
  REQUIRE(shmem_atomic_fetch(&real, right) == 2.5);
  return finish();
}
