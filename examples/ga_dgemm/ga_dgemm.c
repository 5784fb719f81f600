/*
 * ga_dgemm: GA_Dgemm of two global arrays of N x N doubles, and two checks of the result.
 *
 * The factors are integers from -4 to 4, so that every sum is exact. The result depends neither on
 * the number of ranks nor on the order of additions. docs/comex.md explains how to build it.
 */
#include <ga.h>
#include <getopt.h>
#include <macdecls.h>
#include <math.h>
#include <mpi.h>

#include "../common/ga_program.h"

enum { LEFT, RIGHT, PRODUCT, ARRAY_COUNT };

typedef struct options {
  int size, buffer_mib, runs;
  int wants_check, wants_json, is_planted;
} options;

typedef struct state {
  int size, row, column, rows, columns;  ///< of the arrays, and this rank's part of each
  int arrays[ARRAY_COUNT];
} state;

static const char USAGE[] =
    "usage: ga_dgemm [--size N] [--buffer MIB] [--runs R] [--check] [--json]\n"
    "  --size    rows and columns of each matrix; 8192 times the root of the number of ranks\n"
    "  --buffer  MiB that a rank lends Global Arrays for blocks of the factors; 32\n"
    "  --runs    multiplications; the fastest counts; 1\n"
    "  --check   compare with sums by the definition; N at most 2048. The product with a random "
    "vector is always checked\n"
    "  --json    print what was found as JSON\n"
    "a rank has 24 N^2/P bytes of global arrays and of its own the buffer and, for the checks, 32 "
    "N bytes\n";

static int parse(int count, char **words, int rank_count, options *wanted) {
  enum { SIZE, BUFFER, RUNS, CHECK, JSON, PLANT, HELP };
  static const struct option known[] = {{"size", 1, NULL, SIZE},
                                        {"buffer", 1, NULL, BUFFER},
                                        {"runs", 1, NULL, RUNS},
                                        {"check", 0, NULL, CHECK},
                                        {"json", 0, NULL, JSON},
                                        {"plant", 0, NULL, PLANT},
                                        {"help", 0, NULL, HELP},
                                        {NULL, 0, NULL, 0}};
  *wanted = (options){.size = size_for(rank_count), .buffer_mib = 32, .runs = 1};
  opterr = 0;
  for (int word = getopt_long(count, words, "", known, NULL); word != -1;
       word = getopt_long(count, words, "", known, NULL)) {
    switch (word) {
      case SIZE:
        wanted->size = (int)number_of(optarg, 1, 1 << 16);
        break;  // up to here all sums are below 2^53
      case BUFFER:
        wanted->buffer_mib = (int)number_of(optarg, 1, 1 << 14);
        break;
      case RUNS:
        wanted->runs = (int)number_of(optarg, 1, 1 << 20);
        break;
      case CHECK:
        wanted->wants_check = 1;
        break;
      case JSON:
        wanted->wants_json = 1;
        break;
      case PLANT:
        wanted->is_planted = 1;
        break;  // for the test of the checks: one element is changed
      default:
        return -1;
    }
  }
  return optind == count && wanted->size > 0 && wanted->buffer_mib > 0 && wanted->runs > 0 &&
                 (!wanted->wants_check || wanted->size <= 2048)
             ? 0
             : -1;
}

static double factor(int array, int row, int column) {
  return (double)(scattered(bits_of_place(row, column) + (uint64_t)array) % 9) - 4;
}

static double *cells_of(const state *s, int array) {
  int lo[2] = {s->row, s->column}, hi[2] = {lo[0] + s->rows - 1, lo[1] + s->columns - 1}, pitch[1];
  double *cells = NULL;
  if (s->rows == 0)
    return cells;  // small matrices have fewer blocks than there are ranks
  NGA_Access(s->arrays[array], lo, hi, &cells, pitch);
  if (pitch[0] != s->columns)
    GA_Error("ga_dgemm: a block has gaps between its rows", pitch[0]);
  return cells;
}

static void release(const state *s, int array, int is_changed) {
  int lo[2] = {s->row, s->column}, hi[2] = {lo[0] + s->rows - 1, lo[1] + s->columns - 1};
  if (s->rows == 0)
    return;
  if (is_changed)
    NGA_Release_update(s->arrays[array], lo, hi);
  else
    NGA_Release(s->arrays[array], lo, hi);
}

static void open_state(const options *wanted, state *s) {
  static char *const names[ARRAY_COUNT] = {"left", "right", "product"};
  int dims[2] = {wanted->size, wanted->size}, lo[2], hi[2];
  *s = (state){.size = wanted->size};
  for (int array = 0; array < ARRAY_COUNT; array++) {
    s->arrays[array] = NGA_Create(C_DBL, 2, dims, names[array], NULL);
    if (s->arrays[array] == 0)
      GA_Error("ga_dgemm: no memory for the global arrays", wanted->size);
  }
  NGA_Distribution(s->arrays[LEFT], GA_Nodeid(), lo, hi);
  if (hi[0] >= lo[0] && hi[1] >= lo[1] && lo[0] >= 0) {
    s->row = lo[0];
    s->column = lo[1];
    s->rows = hi[0] - lo[0] + 1;
    s->columns = hi[1] - lo[1] + 1;
  }
  for (int array = LEFT; array <= RIGHT; array++) {
    double *const cells = cells_of(s, array);
    for (int i = 0; i < s->rows; i++)
      for (int j = 0; j < s->columns; j++)
        cells[(long)i * s->columns + j] = factor(array, s->row + i, s->column + j);
    release(s, array, 1);
  }
}

// to = array * from, for vectors of `size` that every rank holds completely.
static void multiply_vector(const state *s, int array, const double *from, double *to) {
  const double *const cells = cells_of(s, array);
  memset(to, 0, (size_t)s->size * sizeof *to);
  for (int i = 0; i < s->rows; i++)
    for (int j = 0; j < s->columns; j++)
      to[s->row + i] += cells[(long)i * s->columns + j] * from[s->column + j];
  release(s, array, 0);
  GA_Dgop(to, s->size, "+");
}

// Freivalds' check: left * (right * x) equals product * x for a random x. A wrong product passes
// with a probability of at most 1/1024.
static int is_product(const state *s) {
  size_t const size = (size_t)s->size;
  double *const x = malloc(4 * size * sizeof *x), *const first = x + size,
                *const want = first + size, *const got = want + size;
  if (x == NULL)
    GA_Error("ga_dgemm: no memory for the check", s->size);
  for (size_t i = 0; i < size; i++)
    x[i] = (double)(bits_of_place((int)i, -1) % 1024);
  multiply_vector(s, RIGHT, x, first);
  multiply_vector(s, LEFT, first, want);
  multiply_vector(s, PRODUCT, x, got);
  int const is_same = memcmp(want, got, size * sizeof *want) == 0;
  free(x);
  return is_same;
}

// Checks every element of this rank's block by the definition.
static int agrees(const state *s) {
  const double *const cells = cells_of(s, PRODUCT);
  double wrong = 0;
  for (int i = 0; i < s->rows; i++) {
    for (int j = 0; j < s->columns; j++) {
      double sum = 0;
      for (int k = 0; k < s->size; k++)
        sum += factor(LEFT, s->row + i, k) * factor(RIGHT, k, s->column + j);
      wrong += !(cells[(long)i * s->columns + j] == sum);
    }
  }
  release(s, PRODUCT, 0);
  return largest_of_ranks(wrong) == 0;
}

static double run(const options *wanted, state *s) {
  double best = INFINITY;
  for (int i = 0; i < wanted->runs; i++) {
    GA_Sync();
    double const start = MPI_Wtime();
    GA_Dgemm('n',
             'n',
             s->size,
             s->size,
             s->size,
             1.0,
             s->arrays[LEFT],
             s->arrays[RIGHT],
             0.0,
             s->arrays[PRODUCT]);
    GA_Sync();
    double const seconds = largest_of_ranks(MPI_Wtime() - start);
    if (seconds < best)
      best = seconds;
  }
  if (wanted->is_planted && s->row == 0 && s->column == 0 && s->rows != 0) {
    cells_of(s, PRODUCT)[0] += 1;
    release(s, PRODUCT, 1);
  }
  GA_Sync();
  return best;
}

static uint64_t checksum(const state *s) {
  const double *const cells = cells_of(s, PRODUCT);
  uint64_t sum = 0;
  for (int i = 0; i < s->rows; i++)
    for (int j = 0; j < s->columns; j++)
      sum += cell_sum(s->row + i, s->column + j, cells[(long)i * s->columns + j] + 0.0);  // -0 is 0
  release(s, PRODUCT, 0);
  return sum_of_ranks(sum);
}

static void print(
    const options *wanted, const state *s, double seconds, uint64_t sum, const char *verdict) {
  double const gflops = 2.0 * s->size * s->size * s->size / seconds * 1e-9;
  size_t const global = ARRAY_COUNT * (size_t)s->rows * (size_t)s->columns * sizeof(double);
  size_t const own = ((size_t)wanted->buffer_mib << 20) + 32 * (size_t)s->size;
  const char *const form = wanted->wants_json
                               ? "{\"program\": \"ga_dgemm\", \"ranks\": %d, \"size\": %d, "
                                 "\"gflops\": %.6g, \"seconds\": %.6g, "
                                 "\"global_bytes_a_rank\": %zu, \"own_bytes_a_rank\": %zu, "
                                 "\"checksum\": \"%016llx\", \"check\": \"%s\"}\n"
                               : "%d ranks, %d squared: %.4g GFlop/s, %.4g s; %zu bytes of global "
                                 "arrays and %zu of its own a rank; checksum %016llx; "
                                 "check: %s\n";
  printf(
      form, GA_Nnodes(), s->size, gflops, seconds, global, own, (unsigned long long)sum, verdict);
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
    if (!MA_init(C_DBL, wanted.buffer_mib << 17, 1 << 12))
      GA_Error("ga_dgemm: no memory for the buffer, MiB", wanted.buffer_mib);
    state s;
    open_state(&wanted, &s);
    double const seconds = run(&wanted, &s);
    uint64_t const sum = checksum(&s);
    int is_good = is_product(&s);
    if (wanted.wants_check && !agrees(&s))
      is_good = 0;
    if (GA_Nodeid() == 0)
      print(&wanted, &s, seconds, sum, is_good ? "agrees" : "DIFFERS");
    bad = !is_good;
    for (int array = 0; array < ARRAY_COUNT; array++)
      GA_Destroy(s.arrays[array]);
  }
  GA_Terminate();
  MPI_Finalize();
  return bad;
}
