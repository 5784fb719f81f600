/*
 * ga_stencil9: a nine-point stencil on a global array of N x N doubles, only with Global Arrays.
 *
 * A rank owns a block of the array and changes it in place. For k steps (--block k: temporal
 * blocking) it needs its eight neighbours' old cells. They are in a second, small array of edges: a
 * rank's first and last k rows and columns, each contiguous, from before a sweep and after it. So
 * no rank waits for readers of its edges, and no rank reads another rank's block. The checksum
 * depends neither on the number of ranks nor on k. docs/comex.md explains how to build it.
 */
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
  int grid, edges;        ///< the two global arrays
  double *memory, *work;  ///< buffers for the halos and the sweeps
  size_t memory_size;
} state;

static const char USAGE[] =
    "usage: ga_stencil9 [--size N] [--block K] [--steps S] [--down D] [--check] [--json]\n"
    "  --size   rows and columns of the grid; 8192 times the root of the number of ranks\n"
    "  --block  steps for which neighbours' cells are got at once; 1\n"
    "  --steps  steps; 20\n"
    "  --down   ranks one below another, a divisor of their number; what is closest to a square. "
    "With all of them halos are whole rows\n"
    "  --check  compare with the whole grid computed by one rank; N at most 8192\n"
    "  --json   print what was found as JSON\n"
    "a rank has 8 N^2/P + 32 K (columns + rows) bytes of global arrays and of its own 16 K "
    "(columns + rows + 2 K) + 24 K (columns + 2 K) of a block's\n";

static int parse(int count, char **words, int rank_count, options *wanted) {
  enum { SIZE, BLOCK, STEPS, DOWN, CHECK, JSON, PLANT, HELP };
  static const struct option known[] = {{"size", 1, NULL, SIZE},
                                        {"block", 1, NULL, BLOCK},
                                        {"steps", 1, NULL, STEPS},
                                        {"down", 1, NULL, DOWN},
                                        {"check", 0, NULL, CHECK},
                                        {"json", 0, NULL, JSON},
                                        {"plant", 0, NULL, PLANT},
                                        {"help", 0, NULL, HELP},
                                        {NULL, 0, NULL, 0}};
  *wanted = (options){
      .size = size_for(rank_count), .block = 1, .steps = 20, .down = ranks_down(rank_count)};
  opterr = 0;
  for (int word = getopt_long(count, words, "", known, NULL); word != -1;
       word = getopt_long(count, words, "", known, NULL)) {
    switch (word) {
      case SIZE:
        wanted->size = (int)number_of(optarg, 3, 1 << 20);
        break;
      case BLOCK:
        wanted->block = (int)number_of(optarg, 1, 1 << 12);
        break;
      case STEPS:
        wanted->steps = (int)number_of(optarg, 1, 1 << 24);
        break;
      case DOWN:
        wanted->down = (int)number_of(optarg, 1, rank_count);
        break;
      case CHECK:
        wanted->wants_check = 1;
        break;
      case JSON:
        wanted->wants_json = 1;
        break;
      case PLANT:
        wanted->is_planted = 1;
        break;  // for the test of the check: a corner is not
                // fetched
      default:
        return -1;
    }
  }
  if (wanted->down < 1 || rank_count % wanted->down != 0)
    return -1;
  return optind == count && wanted->size > 0 && wanted->block > 0 && wanted->steps > 0 &&
                 (!wanted->wants_check || wanted->size <= 8192)
             ? 0
             : -1;
}

static double first_value(int row, int column) {
  return (double)(bits_of_place(row, column) >> 11) * 0x1p-53;
}

// The edges that a rank keeps for its neighbours, before or after a sweep, in its row of the array
// of edges. Offsets of each part in doubles.
typedef struct edge_places {
  int north, south;  // depth x columns
  int west, east;    // rows x depth
  int end;
} edge_places;

static edge_places places_of(int rows, int columns, int depth, int parity) {
  int const wide = depth * columns, high = depth * rows, first = parity * 2 * (wide + high);
  return (edge_places){
      first, first + wide, first + 2 * wide, first + 2 * wide + high, first + 2 * (wide + high)};
}

// This rank's block of the grid, and its row of the edges. Their addresses stay valid as long as
// the arrays exist.
static double *cells_of(const state *s) {
  int lo[2] = {s->mine.row, s->mine.column},
      hi[2] = {lo[0] + s->mine.rows - 1, lo[1] + s->mine.columns - 1}, pitch[1];
  double *cells = NULL;
  NGA_Access(s->grid, lo, hi, &cells, pitch);
  if (pitch[0] != s->mine.columns)
    GA_Error("ga_stencil9: a block has gaps between its rows", pitch[0]);
  return cells;
}

static void release(const state *s, int is_changed) {
  int lo[2] = {s->mine.row, s->mine.column},
      hi[2] = {lo[0] + s->mine.rows - 1, lo[1] + s->mine.columns - 1};
  if (is_changed)
    NGA_Release_update(s->grid, lo, hi);
  else
    NGA_Release(s->grid, lo, hi);
}

// Copies the block's current edges, for the sweeps that read `parity`.
static void tell_edges(const state *s, const double *cells, int parity) {
  const block *const b = &s->mine;
  long const depth = s->around.depth, columns = b->columns, below = b->rows - depth;
  edge_places const at = places_of(b->rows, b->columns, (int)depth, parity);
  int lo[2] = {GA_Nodeid(), at.north}, hi[2] = {GA_Nodeid(), at.end - 1}, pitch[1];
  double *edges = NULL;
  NGA_Access(s->edges, lo, hi, &edges, pitch);
  memcpy(edges, cells, (size_t)(depth * columns) * sizeof *cells);
  memcpy(edges + (at.south - at.north),
         cells + below * columns,
         (size_t)(depth * columns) * sizeof *cells);
  double *const west = edges + (at.west - at.north), *const east = edges + (at.east - at.north);
  for (long i = 0; i < b->rows; i++) {
    memcpy(west + i * depth, cells + i * columns, (size_t)depth * sizeof *cells);
    memcpy(east + i * depth, cells + i * columns + columns - depth, (size_t)depth * sizeof *cells);
  }
  NGA_Release_update(s->edges, lo, hi);
}

// One row for each rank, wide enough for the largest block.
static int edges_array(int size, int rank_count, int down, int depth) {
  int const across = rank_count / down;
  long const width = 4L * depth * ((size + down - 1) / down + (size + across - 1) / across);
  if (width > INT32_MAX)
    GA_Error("ga_stencil9: --block and --size are too large for the array of edges", depth);
  int dims[2] = {rank_count, (int)width}, blocks[2] = {rank_count, 1};
  int *const map = calloc((size_t)rank_count + 1, sizeof *map);
  if (map == NULL)
    return 0;
  for (int i = 0; i < rank_count; i++)
    map[i] = i;
  int const handle = NGA_Create_irreg(C_DBL, 2, dims, "edges", blocks, map);
  free(map);
  return handle;
}

// The neighbours' cells, and rows being computed.
static void open_memory(state *s, int block_steps) {
  const block *const mine = &s->mine;
  halos *const around = &s->around;
  size_t const depth = (size_t)block_steps, wide = depth * (size_t)mine->columns,
               high = depth * (size_t)mine->rows, corner = depth * depth;
  size_t const count = 2 * wide + 2 * high + 4 * corner + work_count(mine, block_steps);
  s->memory_size = count * sizeof(double);
  s->memory = calloc(count, sizeof(double));
  if (s->memory == NULL)
    GA_Error("ga_stencil9: no memory for the halos, KiB", (int)(s->memory_size >> 10));
  around->north = s->memory;
  around->south = around->north + wide;
  around->west = around->south + wide;
  around->east = around->west + high;
  for (size_t i = 0; i < 4; i++)
    around->corners[i] = around->east + high + i * corner;
  s->work = around->east + high + 4 * corner;
}

static void open_state(const options *wanted, state *s) {
  int const rank_count = GA_Nnodes(), down = wanted->down;
  *s = (state){.around = {.depth = wanted->block}};
  if (wanted->size / down < wanted->block || wanted->size / (rank_count / down) < wanted->block)
    GA_Error("ga_stencil9: --block is larger than the smallest block of a rank", wanted->block);
  s->grid = blocked_array("grid", wanted->size, rank_count, down);
  s->edges = edges_array(wanted->size, rank_count, down, wanted->block);
  if (s->grid == 0 || s->edges == 0)
    GA_Error("ga_stencil9: no memory for the global arrays", wanted->size);
  int lo[2], hi[2];
  NGA_Distribution(s->grid, GA_Nodeid(), lo, hi);
  block *const mine = &s->mine;
  *mine = (block){wanted->size, lo[0], lo[1], hi[0] - lo[0] + 1, hi[1] - lo[1] + 1};
  open_memory(s, wanted->block);
  double *const cells = cells_of(s);
  for (int i = 0; i < mine->rows; i++)
    for (int j = 0; j < mine->columns; j++)
      cells[(long)i * mine->columns + j] = first_value(mine->row + i, mine->column + j);
  tell_edges(s, cells, 0);
  release(s, 1);
}

static void close_state(state *s) {
  free(s->memory);
  GA_Destroy(s->edges);
  GA_Destroy(s->grid);
}

// Starts a get into `to` from the block `down` rows and `right` columns of blocks away, each -1, 0
// or 1. The data are there after NGA_NbWait. 0: there is no such neighbour.
static int start_get(
    const state *s, int parity, int down, int right, double *to, ga_nbhdl_t *handle) {
  const block *const b = &s->mine;
  int const depth = s->around.depth;
  int place[2] = {down < 0   ? b->row - 1
                  : down > 0 ? b->row + b->rows
                             : b->row,
                  right < 0   ? b->column - 1
                  : right > 0 ? b->column + b->columns
                              : b->column};
  if (place[0] < 0 || place[1] < 0 || place[0] >= b->size || place[1] >= b->size)
    return 0;
  int const owner = NGA_Locate(s->grid, place);
  int lo[2], hi[2];
  NGA_Distribution(s->grid, owner, lo, hi);
  int const rows = hi[0] - lo[0] + 1, columns = hi[1] - lo[1] + 1;
  edge_places const at = places_of(rows, columns, depth, parity);
  // The edge of the neighbour that touches this block. A corner is the first or the last rows of
  // its columns.
  int first = down < 0 ? at.south : at.north, count = depth * columns;
  if (right != 0) {
    first = right < 0 ? at.east : at.west;
    if (down < 0)
      first += (rows - depth) * depth;
    count = (down == 0 ? rows : depth) * depth;
  }
  int from[2] = {owner, first}, last[2] = {owner, first + count - 1}, pitch[1] = {count};
  NGA_NbGet(s->edges, from, last, to, pitch, handle);
  return 1;
}

static void get_halos(const state *s, int parity, int is_planted) {
  const halos *const h = &s->around;
  const struct {
    int down, right;
    double *to;
  } parts[8] = {{-1, 0, h->north},
                {1, 0, h->south},
                {0, -1, h->west},
                {0, 1, h->east},
                {-1, -1, h->corners[0]},
                {-1, 1, h->corners[1]},
                {1, -1, h->corners[2]},
                {1, 1, h->corners[3]}};
  ga_nbhdl_t handles[8];
  int count = 0;
  for (int i = is_planted ? 5 : 0; i < 8; i++)
    count += start_get(s, parity, parts[i].down, parts[i].right, parts[i].to, &handles[count]);
  for (int i = 0; i < count; i++)
    NGA_NbWait(&handles[i]);
}

static void run(const options *wanted, state *s, double *seconds) {
  GA_Sync();
  double const start = MPI_Wtime();
  for (int done = 0, parity = 0; done < wanted->steps; parity = 1 - parity) {
    int const steps = wanted->steps - done < wanted->block ? wanted->steps - done : wanted->block;
    get_halos(s, parity, wanted->is_planted && GA_Nodeid() == GA_Nnodes() - 1);
    double *const cells = cells_of(s);
    sweep(&s->mine, &s->around, steps, cells, s->work);
    tell_edges(s, cells, 1 - parity);
    release(s, 1);
    done += steps;
    GA_Sync();  // all new edges are stored, and no rank reads the old ones any more
  }
  *seconds = largest_of_ranks(MPI_Wtime() - start);
}

static uint64_t checksum(const state *s) {
  const double *const cells = cells_of(s);
  uint64_t sum = 0;
  for (int i = 0; i < s->mine.rows; i++)
    for (int j = 0; j < s->mine.columns; j++)
      sum += cell_sum(s->mine.row + i, s->mine.column + j, cells[(long)i * s->mine.columns + j]);
  release(s, 0);
  return sum_of_ranks(sum);
}

// Whether the result equals, bit by bit, the result of one processor on the whole grid. Rank 0
// computes it.
static int agrees(const options *wanted, uint64_t found) {
  uint64_t sum = 0;
  if (GA_Nodeid() == 0) {
    size_t const size = (size_t)wanted->size;
    double *const cells = malloc(2 * size * size * sizeof *cells);
    if (cells == NULL)
      GA_Error("ga_stencil9: no memory for the check", wanted->size);
    for (int i = 0; i < wanted->size; i++)
      for (int j = 0; j < wanted->size; j++)
        cells[(size_t)i * size + (size_t)j] = first_value(i, j);
    sweep_whole_grid(wanted->size, wanted->steps, cells, cells + size * size);
    for (int i = 0; i < wanted->size; i++)
      for (int j = 0; j < wanted->size; j++)
        sum += cell_sum(i, j, cells[(size_t)i * size + (size_t)j]);
    free(cells);
  }
  return sum_of_ranks(sum) == found;
}

static void print(
    const options *wanted, const state *s, double seconds, uint64_t sum, const char *verdict) {
  double const cells = (double)wanted->size * wanted->size,
               gflops = cells * wanted->steps * FLOPS_A_CELL / seconds * 1e-9;
  int const sweeps = (wanted->steps + wanted->block - 1) / wanted->block;
  size_t const rows = (size_t)s->mine.rows, columns = (size_t)s->mine.columns;
  size_t const global =
      (rows * columns + 4 * (size_t)wanted->block * (rows + columns)) * sizeof(double);
  const char *const form =
      wanted->wants_json
          ? "{\"program\": \"ga_stencil9\", \"ranks\": %d, \"size\": %d, \"block\": %d, \"steps\": "
            "%d, \"gflops\": %.6g, \"seconds\": %.6g, "
            "\"seconds_a_sweep\": %.6g, \"global_bytes_a_rank\": %zu, \"own_bytes_a_rank\": %zu, "
            "\"checksum\": \"%016llx\", \"check\": \"%s\"}\n"
          : "%d ranks, %d squared, --block %d: %d steps, %.4g GFlop/s, %.4g s, %.4g s a sweep; %zu "
            "bytes of global arrays and %zu of its own a rank; "
            "checksum %016llx; check: %s\n";
  printf(form,
         GA_Nnodes(),
         wanted->size,
         wanted->block,
         wanted->steps,
         gflops,
         seconds,
         seconds / sweeps,
         global,
         s->memory_size,
         (unsigned long long)sum,
         verdict);
  fflush(stdout);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  GA_Initialize();
  options wanted;
  int bad = parse(count, words, GA_Nnodes(), &wanted) != 0 ? 2 : 0;
  if (bad) {
    if (GA_Nodeid() == 0)
      fputs(USAGE, stderr);
  } else {
    state s;
    double seconds = 0;
    open_state(&wanted, &s);
    run(&wanted, &s, &seconds);
    uint64_t const sum = checksum(&s);
    int const is_same = !wanted.wants_check || agrees(&wanted, sum);
    if (GA_Nodeid() == 0)
      print(&wanted,
            &s,
            seconds,
            sum,
            !wanted.wants_check ? "not asked for"
            : is_same           ? "agrees"
                                : "DIFFERS");
    bad = !is_same;
    close_state(&s);
  }
  GA_Terminate();
  MPI_Finalize();
  return bad;
}
