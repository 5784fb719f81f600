/* ga_stencil9: a nine-point stencil on a global array of N x N doubles, by Global Arrays alone.
 *
 * A rank owns a block of two arrays, one of before a sweep and one of after it, and gets of its eight neighbours what it needs for k steps
 * (--block k: temporal blocking). Besides its blocks it keeps the neighbours' cells and three rows a step: --help says how many bytes.
 * The checksum does not depend on the number of ranks nor on k. docs/comex.md tells how to build it. */
#include <ga.h>
#include <getopt.h>
#include <macdecls.h>
#include <mpi.h>

#include "../common/ga_program.h"
#include "sweep.h"

typedef struct options {
  int size, block, steps, down;
  int wants_check, wants_json, is_planted;
} options;

typedef struct state {
  block mine;
  halos around;
  int arrays[2];
  double *memory, *work;  ///< what the halos and the sweeps need
  size_t memory_size;
} state;

static const char USAGE[] =
    "usage: ga_stencil9 [--size N] [--block K] [--steps S] [--down D] [--check] [--json]\n"
    "  --size   rows and columns of the grid; 8192 times the root of the number of ranks\n"
    "  --block  steps for which neighbours' cells are got at once; 1\n"
    "  --steps  steps; 20\n"
    "  --down   ranks one below another, a divisor of their number; what is closest to a square. With all of them halos are whole rows\n"
    "  --check  compare with the whole grid computed by one rank; N at most 8192\n"
    "  --json   print what was found as JSON\n"
    "a rank has 16 N^2/P bytes of global arrays and of its own 16 K (columns + rows + 2 K) + 24 K (columns + 2 K) of a block's\n";

static int parse(int count, char **words, int rank_count, options *wanted) {
  enum { SIZE, BLOCK, STEPS, DOWN, CHECK, JSON, PLANT, HELP };
  static const struct option known[] = {{"size", 1, NULL, SIZE},   {"block", 1, NULL, BLOCK}, {"steps", 1, NULL, STEPS}, {"down", 1, NULL, DOWN},
                                        {"check", 0, NULL, CHECK}, {"json", 0, NULL, JSON},   {"plant", 0, NULL, PLANT}, {"help", 0, NULL, HELP},
                                        {NULL, 0, NULL, 0}};
  *wanted = (options){.size = size_for(rank_count), .block = 1, .steps = 20, .down = ranks_down(rank_count)};
  opterr = 0;
  for (int word; (word = getopt_long(count, words, "", known, NULL)) != -1;) {
    switch (word) {
      case SIZE: wanted->size = (int)number_of(optarg, 3, 1 << 20); break;
      case BLOCK: wanted->block = (int)number_of(optarg, 1, 1 << 12); break;
      case STEPS: wanted->steps = (int)number_of(optarg, 1, 1 << 24); break;
      case DOWN: wanted->down = (int)number_of(optarg, 1, rank_count); break;
      case CHECK: wanted->wants_check = 1; break;
      case JSON: wanted->wants_json = 1; break;
      case PLANT: wanted->is_planted = 1; break;  // for the test of the check: a corner is not got
      default: return -1;
    }
  }
  if (wanted->down < 1 || rank_count % wanted->down != 0) return -1;
  return optind == count && wanted->size > 0 && wanted->block > 0 && wanted->steps > 0 && (!wanted->wants_check || wanted->size <= 8192) ? 0 : -1;
}

static double first_value(int row, int column) { return (double)(bits_of_place(row, column) >> 11) * 0x1p-53; }

// A rank's block of an array. It stays where it is as long as the array lives.
static double *cells_of(const state *s, int array) {
  int lo[2] = {s->mine.row, s->mine.column}, hi[2] = {lo[0] + s->mine.rows - 1, lo[1] + s->mine.columns - 1}, pitch[1];
  double *cells = NULL;
  NGA_Access(s->arrays[array], lo, hi, &cells, pitch);
  if (pitch[0] != s->mine.columns) GA_Error("ga_stencil9: a block has gaps between its rows", pitch[0]);
  return cells;
}

static void release(const state *s, int array, int is_changed) {
  int lo[2] = {s->mine.row, s->mine.column}, hi[2] = {lo[0] + s->mine.rows - 1, lo[1] + s->mine.columns - 1};
  if (is_changed) NGA_Release_update(s->arrays[array], lo, hi);
  else NGA_Release(s->arrays[array], lo, hi);
}

static void open_state(const options *wanted, state *s) {
  int const rank_count = GA_Nnodes(), down = wanted->down;
  *s = (state){.mine = {.size = wanted->size}, .around = {.depth = wanted->block}};
  if (wanted->size / down < wanted->block || wanted->size / (rank_count / down) < wanted->block)
    GA_Error("ga_stencil9: --block is larger than the smallest block of a rank", wanted->block);
  s->arrays[0] = blocked_array("before", wanted->size, rank_count, down);
  s->arrays[1] = blocked_array("after", wanted->size, rank_count, down);
  if (s->arrays[0] == 0 || s->arrays[1] == 0) GA_Error("ga_stencil9: no memory for the global arrays", wanted->size);
  int lo[2], hi[2];
  NGA_Distribution(s->arrays[0], GA_Nodeid(), lo, hi);
  block *const mine = &s->mine;
  *mine = (block){wanted->size, lo[0], lo[1], hi[0] - lo[0] + 1, hi[1] - lo[1] + 1};
  size_t const depth = (size_t)wanted->block, wide = depth * ((size_t)mine->columns + 2 * depth), high = depth * (size_t)mine->rows;
  size_t const count = 2 * wide + 2 * high + work_count(mine, wanted->block);
  s->memory_size = count * sizeof(double);
  s->memory = calloc(count, sizeof(double));
  if (s->memory == NULL) GA_Error("ga_stencil9: no memory for the halos, KiB", (int)(s->memory_size >> 10));
  s->around.north = s->memory;
  s->around.south = s->memory + wide;
  s->around.west = s->memory + 2 * wide;
  s->around.east = s->around.west + high;
  s->work = s->around.east + high;
  double *const cells = cells_of(s, 0);
  for (int i = 0; i < mine->rows; i++)
    for (int j = 0; j < mine->columns; j++) cells[(long)i * mine->columns + j] = first_value(mine->row + i, mine->column + j);
  release(s, 0, 1);
}

static void close_state(state *s) {
  free(s->memory);
  GA_Destroy(s->arrays[0]);
  GA_Destroy(s->arrays[1]);
}

// One neighbour's part of the halo, to be there after NGA_NbWait. Rows and columns are of the whole grid; `pitch` is that of `to`, in doubles.
typedef struct part {
  int row, column, rows, columns, pitch;
  double *to;
} part;

static int start_get(const state *s, int array, const part *wanted, ga_nbhdl_t *handle) {
  int lo[2] = {wanted->row, wanted->column}, hi[2] = {lo[0] + wanted->rows - 1, lo[1] + wanted->columns - 1}, pitch[1] = {wanted->pitch};
  if (lo[0] < 0 || lo[1] < 0 || hi[0] >= s->mine.size || hi[1] >= s->mine.size) return 0;  // outside the grid: there is no neighbour
  NGA_NbGet(s->arrays[array], lo, hi, wanted->to, pitch, handle);
  return 1;
}

static void get_halos(const state *s, int array, int depth, int is_planted) {
  const block *const b = &s->mine;
  const halos *const h = &s->around;
  int const deep = h->depth, wide = b->columns + 2 * deep, skip = deep - depth;
  int const above = b->row - depth, below = b->row + b->rows, left = b->column - depth, right = b->column + b->columns;
  double *const north = h->north + (long)skip * wide, *const south = h->south;
  part const parts[8] = {
      {above, b->column, depth, b->columns, wide, north + deep},          {below, b->column, depth, b->columns, wide, south + deep},
      {b->row, left, b->rows, depth, deep, h->west + skip},               {b->row, right, b->rows, depth, deep, h->east},
      {above, left, depth, depth, wide, north + skip},                    {above, right, depth, depth, wide, north + deep + b->columns},
      {below, left, depth, depth, wide, south + skip},                    {below, right, depth, depth, wide, south + deep + b->columns},
  };
  ga_nbhdl_t handles[8];
  int count = 0;
  for (int i = is_planted ? 5 : 0; i < 8; i++) count += start_get(s, array, &parts[i], &handles[count]);
  for (int i = 0; i < count; i++) NGA_NbWait(&handles[i]);
}

// Returns the array that holds the result.
static int run(const options *wanted, state *s, double *seconds) {
  int now = 0;
  GA_Sync();
  double const start = MPI_Wtime();
  for (int done = 0; done < wanted->steps; now = 1 - now) {
    int const steps = wanted->steps - done < wanted->block ? wanted->steps - done : wanted->block;
    get_halos(s, now, steps, wanted->is_planted && GA_Nodeid() == GA_Nnodes() - 1);
    const double *const from = cells_of(s, now);
    double *const to = cells_of(s, 1 - now);
    sweep(&s->mine, &s->around, steps, from, to, s->work);
    release(s, now, 0);
    release(s, 1 - now, 1);
    done += steps;
    GA_Sync();  // all have what they wanted of `from`, and all of `to` is there
  }
  *seconds = largest_of_ranks(MPI_Wtime() - start);
  return now;
}

static uint64_t checksum(const state *s, int array) {
  const double *const cells = cells_of(s, array);
  uint64_t sum = 0;
  for (int i = 0; i < s->mine.rows; i++)
    for (int j = 0; j < s->mine.columns; j++) sum += cell_sum(s->mine.row + i, s->mine.column + j, cells[(long)i * s->mine.columns + j]);
  release(s, array, 0);
  return sum_of_ranks(sum);
}

// Whether the result is, bit by bit, what one processor makes of the whole grid. Rank 0 computes it.
static int agrees(const options *wanted, uint64_t found) {
  uint64_t sum = 0;
  if (GA_Nodeid() == 0) {
    size_t const size = (size_t)wanted->size;
    double *const cells = malloc(2 * size * size * sizeof *cells);
    if (cells == NULL) GA_Error("ga_stencil9: no memory for the check", wanted->size);
    for (int i = 0; i < wanted->size; i++)
      for (int j = 0; j < wanted->size; j++) cells[(size_t)i * size + (size_t)j] = first_value(i, j);
    sweep_whole_grid(wanted->size, wanted->steps, cells, cells + size * size);
    for (int i = 0; i < wanted->size; i++)
      for (int j = 0; j < wanted->size; j++) sum += cell_sum(i, j, cells[(size_t)i * size + (size_t)j]);
    free(cells);
  }
  return sum_of_ranks(sum) == found;
}

static void print(const options *wanted, const state *s, double seconds, uint64_t sum, const char *verdict) {
  double const cells = (double)wanted->size * wanted->size, gflops = cells * wanted->steps * FLOPS_A_CELL / seconds * 1e-9;
  int const sweeps = (wanted->steps + wanted->block - 1) / wanted->block;
  size_t const global = 2 * (size_t)s->mine.rows * (size_t)s->mine.columns * sizeof(double);
  const char *const form =
      wanted->wants_json
          ? "{\"program\": \"ga_stencil9\", \"ranks\": %d, \"size\": %d, \"block\": %d, \"steps\": %d, \"gflops\": %.6g, \"seconds\": %.6g, "
            "\"seconds_a_sweep\": %.6g, \"global_bytes_a_rank\": %zu, \"own_bytes_a_rank\": %zu, \"checksum\": \"%016llx\", \"check\": \"%s\"}\n"
          : "%d ranks, %d squared, --block %d: %d steps, %.4g GFlop/s, %.4g s, %.4g s a sweep; %zu bytes of global arrays and %zu of its own a rank; "
            "checksum %016llx; check: %s\n";
  printf(form, GA_Nnodes(), wanted->size, wanted->block, wanted->steps, gflops, seconds, seconds / sweeps, global, s->memory_size,
         (unsigned long long)sum, verdict);
  fflush(stdout);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  GA_Initialize();
  options wanted;
  int bad = parse(count, words, GA_Nnodes(), &wanted) != 0 ? 2 : 0;
  if (bad) {
    if (GA_Nodeid() == 0) fputs(USAGE, stderr);
  } else {
    state s;
    double seconds = 0;
    open_state(&wanted, &s);
    int const result = run(&wanted, &s, &seconds);
    uint64_t const sum = checksum(&s, result);
    int const is_same = !wanted.wants_check || agrees(&wanted, sum);
    if (GA_Nodeid() == 0) print(&wanted, &s, seconds, sum, !wanted.wants_check ? "not asked for" : is_same ? "agrees" : "DIFFERS");
    bad = !is_same;
    close_state(&s);
  }
  GA_Terminate();
  MPI_Finalize();
  return bad;
}
