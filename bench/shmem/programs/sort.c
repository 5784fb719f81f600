// Bucket sort as in the ISx benchmark (Hanebutte and Hemstad, 2015). PEs hold uniformly random keys
// and count the keys for each PE. They reserve space there by a fetching add, put the keys, and
// sort the received ones by counting. Prints millions of keys per second of all PEs, for the whole
// and only for the exchange (the adds, puts and the barrier).
#include "measure.h"

enum { KEYS_OF_ALL = 1 << 21, KEY_LIMIT = 1 << 20 };

struct sort {
  uint32_t *keys, *grouped;  // this PE's keys, as generated and ordered by target PE
  size_t keys_count;
  long *offsets;       // where each PE's group begins, and its end
  uint32_t *received;  // symmetric
  size_t received_max;
  long *received_count;  // symmetric
  uint32_t *counts;      // count of each key of this PE's range
  uint32_t width;        // keys of a range
  double exchange_s;
  long *sums;  // at PE 0: counts and sums of keys sent and received
};

static void group(struct sort *sort) {
  int const pes = shmem_n_pes();
  long next[pes];
  memset(sort->offsets, 0, sizeof(long) * (size_t)(pes + 1));
  for (size_t i = 0; i < sort->keys_count; i++)
    sort->offsets[sort->keys[i] / sort->width + 1]++;
  for (int pe = 0; pe < pes; pe++) {
    sort->offsets[pe + 1] += sort->offsets[pe];
    next[pe] = sort->offsets[pe];
  }
  for (size_t i = 0; i < sort->keys_count; i++)
    sort->grouped[next[sort->keys[i] / sort->width]++] = sort->keys[i];
}

// Each PE begins with the next PE, so that not all target the same one.
static void exchange(struct sort *sort) {
  int const me = shmem_my_pe(), pes = shmem_n_pes();
  for (int k = 1; k <= pes; k++) {
    int const pe = (me + k) % pes;
    long const count = sort->offsets[pe + 1] - sort->offsets[pe];
    long const at = shmem_long_atomic_fetch_add(sort->received_count, count, pe);
    REQUIRE((size_t)(at + count) <= sort->received_max);
    shmem_putmem_nbi(sort->received + at,
                     sort->grouped + sort->offsets[pe],
                     (size_t)count * sizeof *sort->grouped,
                     pe);
  }
  shmem_barrier_all();
}

static void count_keys(struct sort *sort) {
  uint32_t const first = sort->width * (uint32_t)shmem_my_pe();
  memset(sort->counts, 0, sizeof *sort->counts * sort->width);
  for (long i = 0; i < *sort->received_count; i++) {
    REQUIRE(sort->received[i] - first < sort->width);
    sort->counts[sort->received[i] - first]++;
  }
}

// Checks that no key was lost, changed or added: the count, the sum and the sum of squares are
// unchanged.
static void check(struct sort *sort) {
  uint32_t const first = sort->width * (uint32_t)shmem_my_pe();
  long sums[6] = {(long)sort->keys_count, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < sort->keys_count; i++) {
    sums[1] += sort->keys[i];
    sums[2] += (long)sort->keys[i] * sort->keys[i];
  }
  for (uint32_t i = 0; i < sort->width; i++) {
    long const key = (long)first + i;
    sums[3] += sort->counts[i];
    sums[4] += sort->counts[i] * key;
    sums[5] += sort->counts[i] * key * key;
  }
  for (int i = 0; i < 6; i++)
    shmem_long_atomic_add(&sort->sums[i], sums[i], 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) {
    for (int i = 0; i < 3; i++)
      REQUIRE(sort->sums[i] == sort->sums[i + 3] && sort->sums[i] != 0);
    memset(sort->sums, 0, sizeof sums);
  }
  shmem_barrier_all();
}

// Seconds of one sort.
static double run(struct sort *sort) {
  *sort->received_count = 0;
  memset(sort->received, 0xff, sizeof *sort->received * sort->received_max);
  shmem_barrier_all();
  double const start = now_s();
  group(sort);
  shmem_barrier_all();  // so that the clock of the exchange does not include waiting for slower PEs
  double const grouped = now_s();
  exchange(sort);
  sort->exchange_s = now_s() - grouped;
  count_keys(sort);
  shmem_barrier_all();
  double const took = now_s() - start;
  check(sort);
  return took;
}

int main(void) {
  enum { ROUNDS = 25 };
  shmem_init();
  int const me = shmem_my_pe();
  size_t const pes = (size_t)shmem_n_pes(), keys_count = KEYS_OF_ALL / pes,
               received_max = keys_count + keys_count / 4 + 4096;
  struct meeting const meeting = meet();
  struct sort sort = {.keys = private_memory(sizeof(uint32_t) * keys_count),
                      .grouped = symmetric(sizeof(uint32_t) * keys_count),
                      .keys_count = keys_count,
                      .offsets = private_memory(sizeof(long) * (pes + 1)),
                      .received = symmetric(sizeof(uint32_t) * received_max),
                      .received_max = received_max,
                      .received_count = symmetric(sizeof(long)),
                      .width = (uint32_t)((KEY_LIMIT + pes - 1) / pes),
                      .sums = symmetric(6 * sizeof(long))};
  sort.counts = private_memory(sizeof(uint32_t) * sort.width);
  for (size_t i = 0; i < keys_count; i++)
    sort.keys[i] = (uint32_t)(random_of(((uint64_t)me << 40) + i) % KEY_LIMIT);

  double whole[ROUNDS] = {0}, exchanges[ROUNDS] = {0};
  run(&sort);
  for (int round = 0; round < ROUNDS; round++) {
    whole[round] = run(&sort);
    exchanges[round] = mean_of_all(&meeting, sort.exchange_s);
  }
  double const keys = 1e-6 * (double)keys_count * (double)pes;
  figure("bucket sort", "M/s", keys / median(whole, ROUNDS));
  figure("bucket sort, the exchange", "M/s", keys / median(exchanges, ROUNDS));
  shmem_finalize();
}
