// What the programs of this folder share: each is a short OpenSHMEM program that ends the job with
// the place and status 1 where a result is not what the specification demands, and else ends with
// status 0 after "NAME passed" of the first PE.
#ifndef TND_TESTS_CONFORMANCE_SHMEM_CHECK_H
#define TND_TESTS_CONFORMANCE_SHMEM_CHECK_H

#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is under test just now: the name of a type, say.
static const char *subject = "";

#define REQUIRE(condition)                            \
  do {                                                \
    if (!(condition)) {                               \
      fprintf(stderr,                                 \
              "PE %d, %s:%d: %s: %s does not hold\n", \
              shmem_my_pe(),                          \
              __FILE__,                               \
              __LINE__,                               \
              subject,                                \
              #condition);                            \
      fflush(NULL);                                   \
      shmem_global_exit(1);                           \
      abort();                                        \
    }                                                 \
  } while (0)

static int me, pe_count;
static const char *program = "";

static inline void start(const char *name) {
  program = name;
  shmem_init();
  me = shmem_my_pe();
  pe_count = shmem_n_pes();
}

static inline int finish(void) {
  shmem_barrier_all();
  if (me == 0) {
    printf("%s passed with %d PEs\n", program, pe_count);
    fflush(stdout);
  }
  shmem_finalize();
  return 0;
}

// Partners: in step s every PE acts on the PE step_of(s) further, itself first; so one PE acts on
// each. source_of: who acts here.
enum { STEP_COUNT = 4 };
static inline int step_of(int step) {
  int const steps[STEP_COUNT] = {0, 1, pe_count / 2, pe_count - 1};
  return steps[step];
}
static inline int target_of(int step) {
  return (me + step_of(step)) % pe_count;
}
static inline int source_of(int step) {
  return (me + pe_count - step_of(step)) % pe_count;
}

// A small value that every arithmetic type holds exactly, other for neighbouring PEs, steps and
// elements.
static inline int value_of(int pe, int step, size_t index) {
  return (int)((pe * 31 + step * 17 + (long)(index % 1000) * 7 + 3) % 113);
}

// Byte `index` of transfer number `seed`: no two neighbours, and no two transfers, look alike.
static inline unsigned char pattern(size_t index, unsigned seed) {
  return (unsigned char)((index * 2654435761u + seed * 40503u) >> 13);
}
static inline void fill(void *data, size_t size, unsigned seed) {
  unsigned char *const bytes = data;
  for (size_t i = 0; i < size; i++)
    bytes[i] = pattern(i, seed);
}
static inline int has_pattern(const void *data, size_t size, unsigned seed) {
  const unsigned char *const bytes = data;
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != pattern(i, seed))
      return 0;
  }
  return 1;
}

static inline void *symmetric(size_t size) {
  void *const memory = shmem_malloc(size);
  REQUIRE(memory != NULL);
  return memory;
}
static inline void *symmetric_zeros(size_t size) {
  void *const memory = symmetric(size);
  memset(memory, 0, size);
  shmem_barrier_all();
  return memory;
}
static inline void *allocate(size_t size) {
  void *const memory = calloc(1, size ? size : 1);
  REQUIRE(memory != NULL);
  return memory;
}

static inline long word_or(int count, char **words, int index, long otherwise) {
  return index < count ? atol(words[index]) : otherwise;
}

// For files that are included once a type, with TYPENAME and TYPE: names made of the type's.
#define JOIN3_(a, b, c) a##b##c
#define JOIN3(a, b, c) JOIN3_(a, b, c)
#define CALL(operation) JOIN3(shmem_, TYPENAME, _##operation)
#define CTX_CALL(operation) JOIN3(shmem_ctx_, TYPENAME, _##operation)
#define OWN(name) JOIN3(name, _, TYPENAME)
#define TEXT_(word) #word
#define TEXT(word) TEXT_(word)

#endif
