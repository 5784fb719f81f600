// What the programs of this folder share: each is a short MPI program that ends the job with the
// place and status 1 where a result is not what MPI demands, and else ends with status 0.
#ifndef TND_TESTS_CONFORMANCE_CHECK_H
#define TND_TESTS_CONFORMANCE_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                       \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      int here_ = -1;                                                                            \
      MPI_Comm_rank(MPI_COMM_WORLD, &here_);                                                     \
      fprintf(                                                                                   \
          stderr, "rank %d, %s:%d: %s does not hold\n", here_, __FILE__, __LINE__, #condition);  \
      usleep(                                                                                    \
          200000); /* an MPI's launcher may end before it has passed on what was written last */ \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
    }                                                                                            \
  } while (0)

static inline void *allocate(size_t size) {
  void *const memory = calloc(1, size ? size : 1);
  REQUIRE(memory != NULL);
  return memory;
}

static inline int own_rank(void) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static inline int rank_count(void) {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

// Byte `index` of message number `seed`: no two neighbours, and no two messages, look alike.
static inline unsigned char pattern(size_t index, unsigned seed) {
  return (unsigned char)((index * 2654435761u + seed * 40503u) >> 13);
}

static inline void fill(unsigned char *data, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i++)
    data[i] = pattern(i, seed);
}

static inline void require_pattern(const unsigned char *data, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i++)
    REQUIRE(data[i] == pattern(i, seed));
}

#endif
