/* Ranks that poll with one-sided calls for a rank that works on its own memory. Memory suffices for
 * fewer than all ranks, so that rank must get its own memory back. Arguments: megabytes of each
 * rank; rounds; "counter" (all but one read a counter until it changes) or "tasks" (all fetch
 * tasks, and the last rank holds the lock that ends the round). */
#include <stdint.h>
#include <unistd.h>

#include "check.h"

static int **counters; /* by rank: two a round; those of one rank are used */
static uint64_t *words;
static size_t word_count;

static int fetch_and_add(int *counter, int rank, int amount) {
  int before = -1;
  ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &before, counter, amount, rank);
  return before;
}

static void work(int round) {
  for (size_t i = 0; i < word_count; i += 16) {
    CHECK(words[i] == i * 31 + (uint64_t)(me + round), "word %zu in round %d", i, round);
    words[i]++;
  }
}

static void poll_counter(int round) {
  int const home = (count - 1 + round) % count; /* the awaited rank first */
  if (me == count - 1) {
    usleep(100000);
    work(round);
    fetch_and_add(&counters[home][2 * round], home, 1);
    return;
  }
  work(round);
  while (fetch_and_add(&counters[home][2 * round], home, 0) == 0) {}
}

/* A task takes less than a millisecond. New tasks appear until all ranks have worked. */
static void run_tasks(int round) {
  int const home = (count - 1 + round) % count; /* the awaited rank first */
  work(round);
  if (me == count - 1) {
    fetch_and_add(&counters[home][2 * round], home, 1);
    return;
  }
  do {
    fetch_and_add(&counters[home][2 * round + 1], home, 1);
    usleep(200);
  } while (fetch_and_add(&counters[home][2 * round], home, 0) == 0);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  CHECK(argc == 4, "words: megabytes, rounds, counter or tasks");
  word_count = ((size_t)atoi(argv[1]) << 20) / sizeof *words;
  int const rounds = atoi(argv[2]);
  int const is_counter = strcmp(argv[3], "counter") == 0;
  counters = malloc((size_t)count * sizeof *counters);
  CHECK(ARMCI_Malloc((void **)counters, 2 * (size_t)rounds * sizeof(int)) == 0, "ARMCI_Malloc");
  memset(counters[me], 0, 2 * (size_t)rounds * sizeof(int));
  words = malloc(word_count * sizeof *words);
  CHECK(words != NULL, "no memory");
  for (size_t i = 0; i < word_count; i += 16)
    words[i] = i * 31 + (uint64_t)me;
  armci_msg_barrier();
  for (int round = 0; round < rounds; round++) {
    if (is_counter) {
      poll_counter(round);
    } else {
      run_tasks(round);
    }
    armci_msg_barrier();
  }
  ARMCI_Free(counters[me]);
  return end();
}
