// usage: collectives [SIZE ...]. Barriers, and broadcast, sum, alltoall and fcollect of all PEs by
// size: bytes of the whole broadcast or sum, for each pair of the alltoall, from each PE of the
// fcollect. The clock runs only inside the collective, with a barrier between two. The mean over
// the PEs counts.
#include "collectives.h"

enum { SIZES_MAX = 16 };

struct collective {
  const char *name;
  void (*call)(struct sets *sets, long *target, const long *source, size_t count);
  // The value at `index` of PE `pe`'s target after the call.
  long (*expected)(int pe, size_t index, size_t count);
  // Longs of source and target, as multiples of count.
  size_t source_parts, target_parts;
  bool skips_root;
  struct sets *sets;
  long *source, *target;
  size_t count;
};

static long given(int pe, size_t index) {
  return (long)(pe + 1) * 1000003 + (long)index;
}

static long of_broadcast(int pe, size_t index, size_t count) {
  (void)pe;
  (void)count;
  return given(0, index);
}

static long of_reduce(int pe, size_t index, size_t count) {
  (void)pe;
  (void)count;
  long sum = 0;
  for (int other = 0; other < shmem_n_pes(); other++)
    sum += given(other, index);
  return sum;
}

static long of_alltoall(int pe, size_t index, size_t count) {
  return given((int)(index / count), (size_t)pe * count + index % count);
}

static long of_fcollect(int pe, size_t index, size_t count) {
  (void)pe;
  return given((int)(index / count), index % count);
}

static double barriers(long count, void *context) {
  (void)context;
  double const start = now_s();
  for (long i = 0; i < count; i++)
    shmem_barrier_all();
  return now_s() - start;
}

static double calls(long count, void *context) {
  struct collective *const each = context;
  double took = 0;
  for (long i = 0; i < count; i++) {
    double const start = now_s();
    each->call(each->sets, each->target, each->source, each->count);
    took += now_s() - start;
    shmem_barrier_all();
  }
  return took;
}

// Checks that one call gives the right result at every PE.
static void check(struct collective *each) {
  int const me = shmem_my_pe();
  for (size_t i = 0; i < each->count * each->source_parts; i++)
    each->source[i] = given(me, i);
  memset(each->target, 0, sizeof(long) * each->count * each->target_parts);
  shmem_barrier_all();
  calls(1, each);
  // OpenSHMEM 1.4 does not write the root's target of a broadcast.
  if (!each->skips_root || me != 0)
    for (size_t i = 0; i < each->count * each->target_parts; i++)
      REQUIRE(each->target[i] == each->expected(me, i, each->count));
  shmem_barrier_all();
}

int main(int words_count, char **words) {
  static const size_t usual[] = {8, 1 << 10, 32 << 10, 1 << 20};
  size_t sizes[SIZES_MAX] = {0}, sizes_count = 0, largest = 0;
  for (int i = 1; i < words_count && sizes_count < SIZES_MAX; i++)
    sizes[sizes_count++] = (size_t)atol(words[i]);
  if (sizes_count == 0) {
    memcpy(sizes, usual, sizeof usual);
    sizes_count = sizeof usual / sizeof *usual;
  }
  for (size_t i = 0; i < sizes_count; i++)
    largest = sizes[i] > largest ? sizes[i] : largest;

  shmem_init();
  size_t const pes = (size_t)shmem_n_pes(), count_max = largest / sizeof(long);
  struct meeting const meeting = meet();
  struct sets sets = make_sets(count_max);
  long *const source = symmetric(largest * pes), *const target = symmetric(largest * pes);
  struct collective known[] = {
      {"broadcast", broadcast, of_broadcast, 1, 1, true, &sets, source, target, 0},
      {"reduce", reduce, of_reduce, 1, 1, false, &sets, source, target, 0},
      {"alltoall", alltoall, of_alltoall, pes, pes, false, &sets, source, target, 0},
      {"fcollect", fcollect, of_fcollect, 1, pes, false, &sets, source, target, 0},
  };

  figure("barrier", "us", 1e6 * seconds_of(&meeting, (struct experiment){barriers, NULL, true}));
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    for (size_t i = 0; i < sizes_count; i++) {
      struct collective *const each = &known[k];
      each->count = sizes[i] / sizeof(long);
      check(each);
      double const seconds = seconds_of(&meeting, (struct experiment){calls, each, true});
      check(each);
      char what[64];
      snprintf(what, sizeof what, "%s %zu B", each->name, sizes[i]);
      figure(what, "us", 1e6 * seconds);
    }
  shmem_finalize();
}
