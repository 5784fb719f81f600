/*
 * bench/shmemg/pairs.h: what pairs.c and its rival measure: transfers between the host's memory (h)
 * and a device's (d) of two processes, by size. Lines "put_hd_8 value us" are one transfer and its
 * completion at the target, lines in GB/s many transfers and one completion.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum pairs_side { PAIRS_HOST, PAIRS_DEVICE, PAIRS_SIDES };
enum { PAIRS_SIZES = 13, PAIRS_WARM = 3 };

static const size_t pairs_size_max = (size_t)64 << 20;
/* Bytes of a measured window of transfers, and of all transfers of a latency. */
static const size_t pairs_window = (size_t)64 << 20, pairs_latency_bytes = (size_t)64 << 20;

/* 4 B to 64 MiB. */
static inline size_t pairs_size(int index) {
  return (size_t)4 << (index * 2);
}

static inline double pairs_now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static inline int pairs_bounded(size_t count, int least, int most) {
  return count<(size_t)least ? least : count>(size_t) most ? most : (int)count;
}

/* Rounds of single transfers of this size. */
static inline int pairs_rounds(size_t size, int rounds_max) {
  return pairs_bounded(pairs_latency_bytes / size, 3, rounds_max);
}

/* Transfers of a window: they fill the buffers once, 64 at most. */
static inline int pairs_count(size_t size) {
  return pairs_bounded(pairs_window / size, 1, 64);
}

static inline char pairs_letter(int side) {
  return side == PAIRS_HOST ? 'h' : 'd';
}

static inline void pairs_print_latency(
    const char *call, int source, int target, size_t size, double us) {
  printf("%s_%c%c_%zu %.3f us\n", call, pairs_letter(source), pairs_letter(target), size, us);
}

static inline void pairs_print_rate(
    const char *call, int source, int target, size_t size, double bytes, double us) {
  printf("%s_%c%c_%zu %.4f GB/s\n",
         call,
         pairs_letter(source),
         pairs_letter(target),
         size,
         bytes / us / 1e3);
  fflush(stdout);
}

/* The value of an option, or `usual`. */
static inline long pairs_option(int argc, char **argv, const char *name, long usual) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], name) == 0)
      return atol(argv[i + 1]);
  return usual;
}

/* [--rounds N]: single transfers, at most. */
static inline int pairs_rounds_max(int argc, char **argv) {
  return (int)pairs_option(argc, argv, "--rounds", 200);
}

/* [--size-max BYTES]: how many sizes are measured. */
static inline int pairs_sizes(int argc, char **argv) {
  size_t const size_max = (size_t)pairs_option(argc, argv, "--size-max", (long)pairs_size_max);
  int count = 0;
  while (count < PAIRS_SIZES && pairs_size(count) <= size_max)
    count++;
  return count;
}
