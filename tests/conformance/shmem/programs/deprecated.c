// What the specification deprecates and still asks for: active sets, atomics and memory calls by
// their old names, waits.
#include <complex.h>

#include "check.h"

enum { COUNT = 9 };

static long sync_any[SHMEM_BARRIER_SYNC_SIZE], sync_reduce[2][SHMEM_REDUCE_SYNC_SIZE],
    sync_broadcast[SHMEM_BCAST_SYNC_SIZE], sync_collect[2][SHMEM_COLLECT_SYNC_SIZE],
    sync_all[2][SHMEM_ALLTOALL_SYNC_SIZE], sync_strided[2][SHMEM_ALLTOALLS_SYNC_SIZE];

#define BODY "old_atomics.inc"
#include "each_old_atomic_type.inc"
#define BODY "old_reductions.inc"
#include "each_old_type.inc"
#define BODY "old_reductions.inc"
#include "each_old_real_type.inc"
#define BODY "old_bits.inc"
#include "each_old_type.inc"

static void extended(void) {
  subject = "float and double";
  static float single;
  static double twice;
  int const pe = target_of(1);
  shmem_float_set(&single, 1.5f, pe);
  shmem_double_set(&twice, 2.5, pe);
  shmem_fence();
  REQUIRE(shmem_float_fetch(&single, pe) == 1.5f && shmem_double_fetch(&twice, pe) == 2.5);
  REQUIRE(shmem_float_swap(&single, 3, pe) == 1.5f && shmem_double_swap(&twice, 4, pe) == 2.5);
  shmem_barrier_all();
  REQUIRE(single == 3 && twice == 4);
}

static void complex_sums(void) {
  subject = "complex";
  static double _Complex twice[2], twice_sum[2], twice_work[2 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
  static float _Complex single[2], single_product[2],
      single_work[2 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
  for (int i = 0; i < 2; i++) {
    twice[i] = me + i - 2.0 * me * I;
    single[i] = me < 3 ? 1 + I : 1;
  }
  shmem_barrier_all();
  shmem_complexd_sum_to_all(twice_sum, twice, 2, 0, 0, pe_count, twice_work, sync_reduce[0]);
  shmem_complexf_prod_to_all(
      single_product, single, 2, 0, 0, pe_count, single_work, sync_reduce[1]);
  double const sum = pe_count * (pe_count - 1) / 2.0;
  REQUIRE(creal(twice_sum[1]) == sum + pe_count && cimag(twice_sum[1]) == -2 * sum);
  float _Complex product = 1;
  for (int pe = 0; pe < pe_count && pe < 3; pe++)
    product *= 1 + I;
  REQUIRE(single_product[0] == product && single_product[1] == product);
  shmem_barrier_all();
}

// Two rows of the same code: elements of 32 and of 64 bits.
#define MOVES(bits)                                                                              \
  static void move##bits(int begin, int stride, int size) {                                      \
    subject = "active sets of " #bits " bits";                                                   \
    typedef uint##bits##_t element;                                                              \
    int const mine = (me - begin) >> stride, shared = (me - begin) % (1 << stride) == 0;         \
    element *const source = symmetric_zeros(sizeof(element) * (size_t)(2 * size));               \
    element *const target = symmetric_zeros(sizeof(element) * (size_t)(3 * size + 3));           \
    if (me >= begin && shared && mine < size) {                                                  \
      for (int i = 0; i < 2 * size; i++)                                                         \
        source[i] = (element)(mine * 1000 + i);                                                  \
      shmem_barrier(begin, stride, size, sync_any);                                              \
      int const root = size - 1;                                                                 \
      shmem_broadcast##bits(target, source, 2, root, begin, stride, size, sync_broadcast);       \
      if (mine == root)                                                                          \
        REQUIRE(target[0] == 0);                                                                 \
      else                                                                                       \
        REQUIRE(target[0] == (element)(root * 1000) && target[1] == (element)(root * 1000 + 1)); \
      shmem_barrier(begin, stride, size, sync_any);                                              \
      shmem_fcollect##bits(target, source, 2, begin, stride, size, sync_collect[0]);             \
      for (int i = 0; i < 2 * size; i++)                                                         \
        REQUIRE(target[i] == (element)(i / 2 * 1000 + i % 2));                                   \
      shmem_barrier(begin, stride, size, sync_any);                                              \
      shmem_collect##bits(                                                                       \
          target, source, (size_t)(1 + mine % 2), begin, stride, size, sync_collect[1]);         \
      for (int pe = 0, at = 0; pe < size; pe++) {                                                \
        for (int i = 0; i < 1 + pe % 2; i++)                                                     \
          REQUIRE(target[at++] == (element)(pe * 1000 + i));                                     \
      }                                                                                          \
      shmem_barrier(begin, stride, size, sync_any);                                              \
      shmem_alltoall##bits(target, source, 2, begin, stride, size, sync_all[0]);                 \
      for (int i = 0; i < 2 * size; i++)                                                         \
        REQUIRE(target[i] == (element)(i / 2 * 1000 + 2 * mine + i % 2));                        \
      shmem_barrier(begin, stride, size, sync_any);                                              \
      shmem_alltoalls##bits(target, source, 3, 2, 1, begin, stride, size, sync_strided[0]);      \
      for (int pe = 0; pe < size; pe++)                                                          \
        REQUIRE(target[3 * pe] == (element)(pe * 1000 + 2 * mine));                              \
      shmem_barrier(begin, stride, size, sync_any);                                              \
    }                                                                                            \
    shmem_barrier_all();                                                                         \
    shmem_free(target);                                                                          \
    shmem_free(source);                                                                          \
  }
MOVES(32)
MOVES(64)

static void memory(void) {
  subject = "memory";
  char *block = shmalloc(100);
  REQUIRE(block != NULL);
  block[0] = 3;
  block = shrealloc(block, 5000);
  REQUIRE(block != NULL && block[0] == 3);
  shfree(block);
  block = shmemalign(256, 100);
  REQUIRE(block != NULL && (uintptr_t)block % 256 == 0);
  shfree(block);
}

static void waits(void) {
  subject = "waits";
  static long word;
  shmem_long_p(&word, 1, target_of(1));
  shmem_wait(&word, 0);
  REQUIRE(word == 1);
  shmem_barrier_all();
  shmem_long_p(&word, 5, target_of(1));
  shmem_wait_until(&word, SHMEM_CMP_GT, 4);
  REQUIRE(word == 5);
  shmem_barrier_all();
}

static void set(long *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    words[i] = SHMEM_SYNC_VALUE;
}

int main(void) {
  program = "deprecated";
  start_pes(0);
  me = _my_pe();
  pe_count = _num_pes();
  REQUIRE(me == shmem_my_pe() && pe_count == shmem_n_pes());
  set(sync_any, sizeof sync_any / sizeof(long));
  set(sync_reduce[0], sizeof sync_reduce / sizeof(long));
  set(sync_broadcast, sizeof sync_broadcast / sizeof(long));
  set(sync_collect[0], sizeof sync_collect / sizeof(long));
  set(sync_all[0], sizeof sync_all / sizeof(long));
  set(sync_strided[0], sizeof sync_strided / sizeof(long));
  shmem_barrier_all();
  for (int round = 0; round < 2; round++) {  // the work arrays are as they were before
#define BODY "run.inc"
#include "each_old_atomic_type.inc"
#define BODY "run_reduce.inc"
#include "each_old_type.inc"
#define BODY "run_reduce.inc"
#include "each_old_real_type.inc"
#define BODY "run_old_bits.inc"
#include "each_old_type.inc"
    move32(0, 0, pe_count);
    move64(0, 0, pe_count);
    move64(0, 1, (pe_count + 1) / 2);
    if (pe_count > 2)
      move32(1, 0, pe_count - 2);
  }
  extended();
  complex_sums();
  memory();
  waits();
  REQUIRE(sync_any[0] == SHMEM_SYNC_VALUE && sync_reduce[0][0] == SHMEM_SYNC_VALUE);
  REQUIRE(_SHMEM_CMP_EQ == SHMEM_CMP_EQ && _SHMEM_SYNC_VALUE == SHMEM_SYNC_VALUE);
  return finish();
}
