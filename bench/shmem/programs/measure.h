// Shared parts of the programs of this folder. They are portable OpenSHMEM, built by any
// implementation's oshcc; differences between 1.5 and 1.4 are in collectives.h. PE 0 prints one
// JSON object on a line for each figure: {"what": ..., "unit": ..., "value": ...}.
#ifndef TND_BENCH_SHMEM_MEASURE_H
#define TND_BENCH_SHMEM_MEASURE_H

#include <shmem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Ends the job with the source position if a result is wrong: figures of a wrong program are
// worthless.
#define REQUIRE(condition)                        \
  do {                                            \
    if (!(condition)) {                           \
      fprintf(stderr,                             \
              "PE %d: %s:%d: %s does not hold\n", \
              shmem_my_pe(),                      \
              __FILE__,                           \
              __LINE__,                           \
              #condition);                        \
      shmem_global_exit(1);                       \
    }                                             \
  } while (0)

// A batch grows until it has taken about BATCH_S ENOUGH times, and is then measured ROUNDS_MAX
// times: less often if one takes long, as when 16 PEs share two processors.
enum { ROUNDS_MIN = 3, ROUNDS_MAX = 15, ENOUGH = 3 };
static const double START_S = 0.2, BATCH_S = 0.015, FIGURE_S = 0.5;

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void figure(const char *what, const char *unit, double value) {
  if (shmem_my_pe() != 0)
    return;
  printf("{\"what\": \"%s\", \"unit\": \"%s\", \"value\": %.6g}\n", what, unit, value);
  fflush(stdout);
}

// Symmetric memory, zeroed and touched, so that no page is first used while a clock runs.
// Collective.
static inline void *symmetric(size_t size) {
  void *const memory = shmem_malloc(size);
  REQUIRE(memory != NULL);
  memset(memory, 0, size);
  shmem_barrier_all();
  return memory;
}

static inline void *private_memory(size_t size) {
  void *const memory = malloc(size);
  REQUIRE(memory != NULL);
  memset(memory, 0, size);
  return memory;
}

// Where PEs report their times: `times` at PE 0 has an entry for each; `count` and `rounds` are PE
// 0's decision.
struct meeting {
  double *times;
  long *plan;
};

// Returns PE 0's two numbers at every PE.
static inline void agree(const struct meeting *meeting, long *count, long *rounds) {
  shmem_barrier_all();
  if (shmem_my_pe() == 0) {
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
      shmem_long_p(&meeting->plan[0], *count, pe);
      shmem_long_p(&meeting->plan[1], *rounds, pe);
    }
  }
  shmem_barrier_all();
  *count = meeting->plan[0];
  *rounds = meeting->plan[1];
}

// Collective. Waits until START_S after the start, because launchers are busy at first.
static inline struct meeting meet(void) {
  struct meeting const meeting = {symmetric(sizeof(double) * (size_t)shmem_n_pes()),
                                  symmetric(2 * sizeof(long))};
  double const start = now_s();
  for (long again = 1, unused = 0; again;) {
    again = now_s() - start < START_S;
    agree(&meeting, &again, &unused);
  }
  return meeting;
}

// The mean over all PEs; only at PE 0.
static inline double mean_of_all(const struct meeting *meeting, double mine) {
  double sum = 0;
  shmem_double_p(&meeting->times[shmem_my_pe()], mine, 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0)
    for (int pe = 0; pe < shmem_n_pes(); pe++)
      sum += meeting->times[pe];
  shmem_barrier_all();
  return sum / shmem_n_pes();
}

static inline int compare_numbers(const void *left, const void *right) {
  double const a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static inline double median(double *values, long count) {
  qsort(values, (size_t)count, sizeof *values, compare_numbers);
  return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// An operation to measure: `run` executes `count` of them and returns the seconds that this PE
// took. All PEs call it with the same count, after a barrier.
struct experiment {
  double (*run)(long count, void *context);
  void *context;
  bool mean;  // the mean of all PEs counts; otherwise the time of PE 0
};

// The time of a batch and its barrier by PE 0's clock.
static inline double batch_s(struct experiment experiment, long count) {
  shmem_barrier_all();
  double const start = now_s();
  experiment.run(count, experiment.context);
  shmem_barrier_all();
  return now_s() - start;
}

// Seconds for one, the median of several rounds; only at PE 0. Collective.
static inline double seconds_of(const struct meeting *meeting, struct experiment experiment) {
  long count = 1, rounds = 0;
  int enough = 0;
  double shortest = FIGURE_S;
  while (rounds == 0) {  // also serves as warm-up
    double const took = batch_s(experiment, count);
    shortest = took < shortest ? took : shortest;
    // A batch that was slow because it was the first, or because other programs had the processor,
    // is not large enough yet; nor is one that consists mostly of the barrier.
    enough = took >= BATCH_S / 2 && took >= 3 * shortest ? enough + 1 : 0;
    if (enough == ENOUGH || took >= FIGURE_S / 2) {
      rounds = (long)(FIGURE_S / (took > BATCH_S ? took : BATCH_S));
      rounds = rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    } else if (enough == 0) {
      count *= took < BATCH_S / 16 ? 8 : 2;
    }
    agree(meeting, &count, &rounds);
  }
  double took[ROUNDS_MAX] = {0};
  for (long round = 0; round < rounds; round++) {
    shmem_barrier_all();
    double const mine = experiment.run(count, experiment.context) / (double)count;
    took[round] = experiment.mean ? mean_of_all(meeting, mine) : mine;
  }
  shmem_barrier_all();
  return median(took, rounds);
}

// A good pseudorandom number for each index: splitmix64.
static inline uint64_t random_of(uint64_t index) {
  uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

#endif
