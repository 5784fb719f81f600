/* Each rank has a table of 8 MiB that it fills once, and an array of 1 MiB that it changes in each
 * round. A rank that asks for memory needs all of its own. It counts in a word of the next. */
#include "check.h"

enum { TABLE = 8 << 20, HOT = 1 << 20, ROUNDS = 16 };

static unsigned long entry_of(size_t i, int rank) {
  return i * 2654435761u + (unsigned)rank + 1;
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  void *words[64];
  size_t const length = TABLE / sizeof(unsigned long);
  unsigned long *table = malloc(TABLE);
  unsigned char *hot = malloc(HOT);
  CHECK(table != NULL && hot != NULL && count <= 64, "%d ranks", count);
  CHECK(ARMCI_Malloc(words, 4096) == 0, "no memory for a counter");
  int *const counter = words[me];
  *counter = 0;
  for (size_t i = 0; i < length; i++)
    table[i] = entry_of(i, me);
  memset(hot, 0, HOT);
  ARMCI_Barrier();
  for (int round = 1; round <= ROUNDS; round++) {
    void *const more = malloc(256 << 10);
    for (size_t i = 0; i < HOT; i += 512)
      hot[i]++;
    int before = -1, next = (me + 1) % count;
    ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &before, words[next], 1, next);
    CHECK(before == round - 1, "%d instead of %d", before, round - 1);
    free(more);
    ARMCI_Barrier();
  }
  for (size_t i = 0; i < HOT; i += 512)
    CHECK(hot[i] == ROUNDS, "byte %zu is %d", i, hot[i]);
  for (size_t i = 0; i < length; i++)
    CHECK(table[i] == entry_of(i, me), "entry %zu is %lu", i, table[i]);
  for (size_t i = 0; i < length; i += 512)
    table[i]++;
  ARMCI_Barrier();
  for (size_t i = 0; i < length; i++)
    CHECK(table[i] == entry_of(i, me) + (i % 512 == 0), "entry %zu is %lu", i, table[i]);
  ARMCI_Free(words[me]);
  free(hot);
  free(table);
  return end();
}
