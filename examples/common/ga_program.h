// examples/common/ga_program.h: shared parts of the programs on Global Arrays: numbers that depend
// only on a position, a checksum of results, and the command line.
#ifndef TANADA_EXAMPLES_GA_PROGRAM_H
#define TANADA_EXAMPLES_GA_PROGRAM_H

#include <errno.h>
#include <ga.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Pseudorandom bits: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
/// number generators, 2014).
static inline uint64_t scattered(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

static inline uint64_t bits_of_place(int row, int column) {
  return scattered((uint64_t)(uint32_t)row << 32 | (uint32_t)column);
}

/// One cell's contribution to a checksum. Another value, or the same value at another position,
/// gives another contribution.
static inline uint64_t cell_sum(int row, int column, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return scattered(bits ^ bits_of_place(row, column));
}

/// The sum of the ranks' sums, modulo 2^64. Collective.
static inline uint64_t sum_of_ranks(uint64_t mine) {
  long long halves[2] = {(long long)(mine & 0xffffffffu),
                         (long long)(mine >> 32)};  // no number of ranks makes these overflow
  GA_Llgop(halves, 2, "+");
  return (uint64_t)halves[0] + ((uint64_t)halves[1] << 32);
}

/// The maximum of the ranks' numbers. Collective.
static inline double largest_of_ranks(double mine) {
  GA_Dgop(&mine, 1, "max");
  return mine;
}

/// The number of rows in the grid of `rank_count` ranks that is closest to a square.
static inline int ranks_down(int rank_count) {
  int down = 1;
  for (int i = 1; (long)i * i <= rank_count; i++)
    if (rank_count % i == 0)
      down = i;
  return down;
}

/// 8192 * sqrt(rank_count), which is 512 MiB of doubles for each rank.
static inline int size_for(int rank_count) {
  long size = 1;
  while ((size + 1) * (size + 1) <= (long)8192 * 8192 * rank_count)
    size++;
  return (int)size;
}

/// Creates an array of rows x columns doubles in blocks whose sizes differ by at most a row or
/// column, with `down` rows of ranks. 0: insufficient memory.
static inline int blocked_array(char *name, int size, int rank_count, int down) {
  int dims[2] = {size, size}, blocks[2] = {down, rank_count / down};
  int *const map = malloc(sizeof *map * (size_t)(blocks[0] + blocks[1]));
  if (map == NULL)
    return 0;
  for (int axis = 0, next = 0; axis < 2; axis++)
    for (int i = 0; i < blocks[axis]; i++)
      map[next++] = (int)((long)size * i / blocks[axis]);
  int const handle = NGA_Create_irreg(C_DBL, 2, dims, name, blocks, map);
  free(map);
  return handle;
}

/// Parses an integer from `least` to `most`; -1 if it is invalid.
static inline long number_of(const char *text, long least, long most) {
  char *end = NULL;
  errno = 0;
  long const value = strtol(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && value >= least && value <= most ? value : -1;
}

#endif  // TANADA_EXAMPLES_GA_PROGRAM_H
