/*
 * bucket_sort.c: sorts integers over processes, all to all, as IS of the NAS benchmarks does (the
 * paper, 5.2).
 * usage: bucket_sort [RANKS [KEYS_PER_RANK]]. Prints one line. Exit status 1: the result is wrong
 *  or a process failed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mini_mpi.h"

enum { TAG_KEYS = 1, TAG_SUMS = 2, TAG_EDGE = 3 };

/* This must be equal before and after: sorting neither loses nor adds a key. */
struct sums {
  uint64_t count, sum, squares;
};

static int compare(const void *a, const void *b) {
  uint32_t const left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

static struct sums sums_of(const uint32_t *keys, size_t count) {
  struct sums all = {count, 0, 0};
  for (size_t i = 0; i < count; i++) {
    all.sum += keys[i];
    all.squares += (uint64_t)keys[i] * keys[i];
  }
  return all;
}

static void make_keys(uint32_t *keys, size_t count) {
  uint64_t state = 0x9E3779B97F4A7C15u * (uint64_t)(mini_rank() + 1);
  for (size_t i = 0; i < count; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    keys[i] = (uint32_t)(state >> 32);
  }
}

static int bucket_of(uint32_t key) {
  return (int)((uint64_t)key * (uint64_t)mini_size() >> 32);
}

/* Every rank sends every other rank a bucket; the receiver takes them in the order of arrival. */
static uint32_t *exchange(uint32_t *keys, size_t count, size_t *mine_count) {
  int const size = mini_size(), rank = mini_rank();
  size_t const room = count * (size_t)size;
  uint32_t *const mine = malloc(room * sizeof *mine);
  if (mine == NULL)
    exit(1);
  qsort(keys, count, sizeof *keys, compare);
  size_t begin = 0, taken = 0;
  for (int bucket = 0; bucket < size; bucket++) {
    size_t end = begin;
    while (end < count && bucket_of(keys[end]) == bucket)
      end++;
    if (bucket == rank) {
      memcpy(mine, keys + begin, (end - begin) * sizeof *keys);
      taken = end - begin;
    } else {
      mini_send(keys + begin, (end - begin) * sizeof *keys, bucket, TAG_KEYS);
    }
    begin = end;
  }
  for (int i = 1; i < size; i++) {
    mini_status status;
    mini_recv(mine + taken, (room - taken) * sizeof *mine, MINI_ANY_SOURCE, TAG_KEYS, &status);
    taken += status.size / sizeof *mine;
  }
  qsort(mine, taken, sizeof *mine, compare);
  *mine_count = taken;
  return mine;
}

/*
 * Sends this rank's largest key to the next rank of the ring; it must not be above that rank's
 * smallest.
 */
static int edges_are_sorted(const uint32_t *mine, size_t count) {
  int const size = mini_size(), rank = mini_rank();
  uint32_t const largest = count == 0 ? 0 : mine[count - 1];
  uint32_t before = 0;
  if (size == 1)
    return 1;
  mini_request receive, send;
  mini_irecv(&before, sizeof before, (rank + size - 1) % size, MINI_ANY_TAG, &receive);
  mini_isend(&largest, sizeof largest, (rank + 1) % size, TAG_EDGE, &send);
  mini_wait(&receive, NULL);
  mini_wait(&send, NULL);
  return rank == 0 || count == 0 || before <= mine[0];
}

/* Rank 0 adds up what all ranks had before and after. */
static int totals_agree(const struct sums both[2], uint64_t *count) {
  if (mini_rank() != 0) {
    mini_send(both, 2 * sizeof *both, 0, TAG_SUMS);
    return 1;
  }
  struct sums had = both[0], have = both[1];
  for (int i = 1; i < mini_size(); i++) {
    struct sums other[2];
    mini_recv(other, sizeof other, MINI_ANY_SOURCE, TAG_SUMS, NULL);
    had.count += other[0].count;
    had.sum += other[0].sum;
    had.squares += other[0].squares;
    have.count += other[1].count;
    have.sum += other[1].sum;
    have.squares += other[1].squares;
  }
  *count = have.count;
  return memcmp(&had, &have, sizeof had) == 0;
}

int main(int argc, char **argv) {
  int const ranks = argc > 1 ? atoi(argv[1]) : 4;
  size_t const count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
  if (argc > 3 || ranks < 1 || ranks > 64 || count < 1 || count > 10000000) {
    fprintf(stderr, "usage: bucket_sort [RANKS [KEYS_PER_RANK]], at most 64 and 10000000\n");
    return 1;
  }
  mini_init(ranks);
  uint32_t *const keys = malloc(count * sizeof *keys);
  if (keys == NULL)
    return 1;
  make_keys(keys, count);
  struct sums both[2] = {sums_of(keys, count)};
  mini_barrier();
  size_t mine_count = 0;
  uint32_t *const mine = exchange(keys, count, &mine_count);
  both[1] = sums_of(mine, mine_count);
  uint64_t total = 0;
  int const is_good = edges_are_sorted(mine, mine_count) & totals_agree(both, &total);
  free(keys);
  free(mine);
  int const failed_count = mini_finalize(!is_good);
  if (!is_good || failed_count != 0) {
    fprintf(stderr,
            "bucket_sort: the result is wrong, or %d of %d ranks failed\n",
            failed_count,
            ranks);
    return 1;
  }
  printf("%llu keys over %d ranks are sorted\n", (unsigned long long)total, ranks);
  return 0;
}
