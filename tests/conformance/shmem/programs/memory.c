// The symmetric heap: what is handed out, aligned, grown, zeroed; an end that returns NULL; a storm
// of pieces of all sizes.
#include <stddef.h>

#include "check.h"

enum { PIECE_COUNT = 120, SIZE_MAX_OF_PIECE = 60000 };

// The same address everywhere is not promised, but the same offset is: a put lands where the owner
// looks.
static void reach(unsigned char *memory, size_t size) {
  unsigned char const mark = (unsigned char)(me * 3 + 1);
  shmem_barrier_all();
  shmem_putmem(memory + size - 1, &mark, 1, target_of(1));
  shmem_barrier_all();
  REQUIRE(memory[size - 1] == (unsigned char)(source_of(1) * 3 + 1));
  shmem_barrier_all();
}

static void calls(void) {
  subject = "calls";
  REQUIRE(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL && shmem_calloc(8, 0) == NULL &&
          shmem_align(64, 0) == NULL);
  shmem_free(NULL);
  unsigned char *memory = symmetric(1);
  REQUIRE((uintptr_t)memory % _Alignof(max_align_t) == 0);
  reach(memory, 1);
  memory[0] = 7;
  for (size_t size = 10; size < 300000; size *= 7) {
    memory = shmem_realloc(memory, size);
    REQUIRE(memory != NULL && memory[0] == 7);
    fill(memory + 1, size - 1, (unsigned)size);
    reach(memory, size);
    memory[size - 1] = pattern(size - 2, (unsigned)size);
    unsigned char *const smaller = shmem_realloc(memory, size / 2 + 1);
    REQUIRE(smaller != NULL && smaller[0] == 7 &&
            has_pattern(smaller + 1, size / 2, (unsigned)size));
    memory = smaller;
    shmem_barrier_all();
  }
  REQUIRE(shmem_realloc(memory, 0) == NULL);
  memory = shmem_realloc(NULL, 100);
  REQUIRE(memory != NULL);
  shmem_free(memory);
  for (size_t alignment = 8; alignment <= 1 << 20; alignment *= 2) {
    memory = shmem_align(alignment, 3 * alignment / 2 + 1);
    REQUIRE(memory != NULL && (uintptr_t)memory % alignment == 0);
    reach(memory, 3 * alignment / 2 + 1);
    shmem_free(memory);
  }
  for (size_t alignment = 0; alignment < 60; alignment = 2 * alignment + 3)
    REQUIRE(shmem_align(alignment, 100) == NULL);  // no power of two
  memory = symmetric(100000);
  memset(memory, 0xff, 100000);
  shmem_free(memory);
  memory = shmem_calloc(1000, 100);
  REQUIRE(memory != NULL);
  for (int i = 0; i < 100000; i++)
    REQUIRE(memory[i] == 0);
  reach(memory, 100000);
  shmem_free(memory);
  REQUIRE(shmem_calloc(SIZE_MAX / 8, 16) == NULL);  // the product does not fit
  long const hints[] = {0,
                        SHMEM_MALLOC_ATOMICS_REMOTE,
                        SHMEM_MALLOC_SIGNAL_REMOTE,
                        SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE};
  for (int i = 0; i < 4; i++) {
    memory = shmem_malloc_with_hints(4096, hints[i]);
    REQUIRE(memory != NULL && shmem_malloc_with_hints(0, hints[i]) == NULL);
    reach(memory, 4096);
    shmem_free(memory);
  }
}

// Takes all there is, in pieces of one size, gives it back, and takes it again: as much.
static void exhaust(size_t size) {
  subject = "exhaustion";
  enum { MOST = 100000 };
  void **const pieces = allocate(sizeof(void *) * MOST);
  int counts[2] = {0, 0};
  for (int round = 0; round < 2; round++) {
    for (; counts[round] < MOST; counts[round]++) {
      pieces[counts[round]] = shmem_malloc(size);
      if (pieces[counts[round]] == NULL)
        break;
    }
    REQUIRE(counts[round] > 0 && counts[round] < MOST);
    REQUIRE(shmem_malloc((size_t)1 << 50) == NULL && shmem_malloc(SIZE_MAX) == NULL);
    unsigned char *const kept = pieces[0];
    kept[0] = 9;
    REQUIRE(shmem_realloc(kept, (size_t)1 << 50) == NULL && kept[0] == 9);
    for (int i = 0; i < counts[round]; i++)
      shmem_free(pieces[i]);
  }
  REQUIRE(counts[1] >= counts[0] * 9L / 10);
  free(pieces);
}

// The same sequence of random pieces everywhere; each piece is filled, and found as it was when it
// goes.
static void storm(int rounds) {
  subject = "storm";
  unsigned char *pieces[PIECE_COUNT] = {NULL};
  size_t sizes[PIECE_COUNT] = {0};
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < rounds; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    int const which = (int)(state % PIECE_COUNT);
    size_t const size = (state >> 20) % ((state >> 50) % 4 ? 300 : SIZE_MAX_OF_PIECE) + 1;
    if (pieces[which] == NULL) {
      pieces[which] = (state >> 45) % 3 ? shmem_malloc(size) : shmem_align(64, size);
    } else if ((state >> 45) % 4 == 0) {
      size_t const both = size < sizes[which] ? size : sizes[which];
      pieces[which] = shmem_realloc(pieces[which], size);
      REQUIRE(pieces[which] != NULL && has_pattern(pieces[which], both, (unsigned)(which + me)));
    } else {
      REQUIRE(has_pattern(pieces[which], sizes[which], (unsigned)(which + me)));
      shmem_free(pieces[which]);
      pieces[which] = NULL;
      continue;
    }
    REQUIRE(pieces[which] != NULL);
    sizes[which] = size;
    fill(pieces[which], size, (unsigned)(which + me));
  }
  shmem_barrier_all();
  for (int i = 0; i < PIECE_COUNT; i++) {
    if (pieces[i] == NULL)
      continue;
    unsigned char there = 0;
    shmem_getmem(&there, pieces[i] + sizes[i] - 1, 1, target_of(1));
    REQUIRE(there == pattern(sizes[i] - 1, (unsigned)(i + target_of(1))));
    REQUIRE(has_pattern(pieces[i], sizes[i], (unsigned)(i + me)));
  }
  shmem_barrier_all();
  for (int i = 0; i < PIECE_COUNT; i++)
    shmem_free(pieces[i]);
}

int main(int count, char **words) {
  start("memory");
  calls();
  storm((int)word_or(count, words, 1, 1500));
  exhaust((size_t)word_or(count, words, 2, 1 << 20));
  storm((int)word_or(count, words, 1, 1500) / 4);
  return finish();
}
