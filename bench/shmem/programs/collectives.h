// Collectives of all PEs on longs: by teams since OpenSHMEM 1.5, by active sets before.
#ifndef TND_BENCH_SHMEM_COLLECTIVES_H
#define TND_BENCH_SHMEM_COLLECTIVES_H

#include "measure.h"

// What active sets need in addition to the data: work arrays that are used in turn, since one is in
// use until the next barrier.
struct sets {
  long *sync[2];
  long *work;
  int turn;
};

#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5

static inline struct sets make_sets(size_t count_max) {
  (void)count_max;
  return (struct sets){{NULL, NULL}, NULL, 0};
}

static inline void broadcast(struct sets *sets, long *target, const long *source, size_t count) {
  (void)sets;
  REQUIRE(shmem_long_broadcast(SHMEM_TEAM_WORLD, target, source, count, 0) == 0);
}

static inline void reduce(struct sets *sets, long *target, const long *source, size_t count) {
  (void)sets;
  REQUIRE(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, target, source, count) == 0);
}

static inline void alltoall(struct sets *sets, long *target, const long *source, size_t count) {
  (void)sets;
  REQUIRE(shmem_long_alltoall(SHMEM_TEAM_WORLD, target, source, count) == 0);
}

static inline void fcollect(struct sets *sets, long *target, const long *source, size_t count) {
  (void)sets;
  REQUIRE(shmem_long_fcollect(SHMEM_TEAM_WORLD, target, source, count) == 0);
}

#else

enum {
  SYNC_COUNT = SHMEM_BCAST_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE + SHMEM_ALLTOALL_SYNC_SIZE +
               SHMEM_COLLECT_SYNC_SIZE
};

static inline struct sets make_sets(size_t count_max) {
  struct sets sets = {{NULL, NULL}, NULL, 0};
  size_t const work_count = count_max / 2 + 1;
  for (int k = 0; k < 2; k++) {
    sets.sync[k] = symmetric(sizeof(long) * SYNC_COUNT);
    for (int i = 0; i < SYNC_COUNT; i++)
      sets.sync[k][i] = SHMEM_SYNC_VALUE;
  }
  sets.work = symmetric(sizeof(long) * (work_count > SHMEM_REDUCE_MIN_WRKDATA_SIZE
                                            ? work_count
                                            : SHMEM_REDUCE_MIN_WRKDATA_SIZE));
  shmem_barrier_all();
  return sets;
}

static inline long *next_sync(struct sets *sets) {
  sets->turn ^= 1;
  return sets->sync[sets->turn];
}

static inline void broadcast(struct sets *sets, long *target, const long *source, size_t count) {
  shmem_broadcast64(target, source, count, 0, 0, 0, shmem_n_pes(), next_sync(sets));
}

static inline void reduce(struct sets *sets, long *target, const long *source, size_t count) {
  shmem_long_sum_to_all(
      target, source, (int)count, 0, 0, shmem_n_pes(), sets->work, next_sync(sets));
}

static inline void alltoall(struct sets *sets, long *target, const long *source, size_t count) {
  shmem_alltoall64(target, source, count, 0, 0, shmem_n_pes(), next_sync(sets));
}

static inline void fcollect(struct sets *sets, long *target, const long *source, size_t count) {
  shmem_fcollect64(target, source, count, 0, 0, shmem_n_pes(), next_sync(sets));
}

#endif
#endif
