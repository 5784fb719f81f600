// Random updates: every PE adds to random words of a table distributed over all PEs, by fetching
// adds, and by adds with one quiet at the end. Prints millions of updates per second of all PEs.
// Each round adds what the previous round has subtracted, so that in the end every word is zero
// again. In between, the table's sum is that of all updates.
#include "measure.h"

enum { LOG_WORDS = 18, WORDS = 1 << LOG_WORDS };

struct table {
  long *words;      // this PE's part
  long *sums;       // at PE 0: the sums of the updates made and of the table
  uint64_t stream;  // of this PE's random numbers
  long sign;
  bool fetching;
};

static void update(const struct table *table, long *word, long value, int owner) {
  if (table->fetching)
    (void)shmem_long_atomic_fetch_add(word, value, owner);
  else
    shmem_long_atomic_add(word, value, owner);
}

static double updates(long count, void *context) {
  struct table *const table = context;
  int const pes = shmem_n_pes();
  double const start = now_s();
  for (long i = 0; i < count; i++) {
    uint64_t const random = random_of(table->stream + (uint64_t)i);
    // Words from the upper half; owners and values from parts of the lower one.
    long *const word = &table->words[(random >> 40) % WORDS];
    int const owner = (int)((random & 0xffff) % (uint64_t)pes);
    long const value = table->sign * (long)((random >> 16) & 0xffffff);
    update(table, word, value, owner);
  }
  shmem_barrier_all();
  return now_s() - start;
}

// A single batch leaves other numbers; a pair of batches leaves zeros.
static double pairs(long count, void *context) {
  struct table *const table = context;
  table->sign = 1;
  double took = updates(count, table);
  table->sign = -1;
  took += updates(count, table);
  return took / 2;
}

// All PEs update the same word: random ones collide too rarely for a lost update to show.
static void check_contended(const struct meeting *meeting, struct table *table) {
  long mine = 0;
  for (double const end = now_s() + 0.05; now_s() < end; mine++)
    update(table, table->words, 1, 0);
  shmem_barrier_all();
  double const all = mean_of_all(meeting, (double)mine) * shmem_n_pes();
  if (shmem_my_pe() == 0) {
    REQUIRE(table->words[0] == (long)(all + 0.5));
    table->words[0] = 0;
  }
  shmem_barrier_all();
}

static void check_sum(struct table *table, long count) {
  long given = 0, held = 0;
  for (long i = 0; i < count; i++)
    given += (long)((random_of(table->stream + (uint64_t)i) >> 16) & 0xffffff);
  for (long i = 0; i < WORDS; i++)
    held += table->words[i];
  shmem_long_atomic_add(&table->sums[0], given, 0);
  shmem_long_atomic_add(&table->sums[1], held, 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) {
    REQUIRE(table->sums[0] == table->sums[1] && table->sums[0] != 0);
    table->sums[0] = 0;
    table->sums[1] = 0;
  }
  shmem_barrier_all();
}

static double rate(const struct meeting *meeting, struct table *table, bool fetching) {
  enum { CHECKED = 1000 };
  table->fetching = fetching;
  check_contended(meeting, table);
  table->sign = 1;
  updates(CHECKED, table);
  check_sum(table, CHECKED);
  table->sign = -1;
  updates(CHECKED, table);
  double const each = seconds_of(meeting, (struct experiment){pairs, table, false});
  for (long i = 0; i < WORDS; i++)
    REQUIRE(table->words[i] == 0);
  shmem_barrier_all();
  return 1e-6 * shmem_n_pes() / each;
}

int main(void) {
  shmem_init();
  struct meeting const meeting = meet();
  struct table table = {symmetric(sizeof(long) * WORDS),
                        symmetric(2 * sizeof(long)),
                        (uint64_t)shmem_my_pe() << 40,
                        1,
                        true};
  figure("GUPS, fetch-add", "M/s", rate(&meeting, &table, true));
  figure("GUPS, add", "M/s", rate(&meeting, &table, false));
  shmem_finalize();
}
