// Shared parts of the programs of this folder. Each runs on some ranks and prints, at rank 0, one
// line for each figure: "figure NAME VALUE". Times are in seconds unless the name has another unit.
#ifndef TND_BENCH_O2G_MEASURE_H
#define TND_BENCH_O2G_MEASURE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void sleep_s(double seconds) {
  struct timespec const span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&span, NULL);
}

// Processor time of this process so far, of all threads.
static inline double processor_s(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// The peak memory of this process, in MiB.
static inline double peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

static inline void figure(const char *name, double value) {
  printf("figure %s %.9g\n", name, value);
}

// Option `index` of the command line as a number, or `otherwise` if there are fewer.
static inline double number_option(int count, char **words, int index, double otherwise) {
  return index < count ? atof(words[index]) : otherwise;
}

static inline void *allocate(size_t size) {
  void *memory = calloc(1, size);
  if (memory == NULL) {
    fprintf(stderr, "%zu bytes of memory are not to be had\n", size);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return memory;
}

// Ends the job with the source position if a result is wrong: figures of a wrong program are
// worthless.
#define REQUIRE(condition)                                                          \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                 \
    }                                                                               \
  } while (0)

#endif
