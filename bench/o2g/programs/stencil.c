// usage: stencil COLUMNS FIELDS ROWS STEPS. A five-point stencil over FIELDS fields, divided by
// rows between the ranks of a ring, with ROWS for each. A step posts its halos, computes the rows
// that need none, waits, and computes the two others. Prints step, the seconds of one step;
// computing, its part outside the library; and checksum, which must be equal for all set-ups.
#include <string.h>

#include "measure.h"

struct field {
  int columns, fields, rows;
  size_t row;  // numbers in a row of all fields
  double *now, *next;
};

// Columns are FIELDS apart: neighbours in a row are one column away, and the ring closes.
static void compute_row(const struct field *it, int y) {
  const double *const above = it->now + it->row * (size_t)(y - 1), *const below =
                                                                       it->now +
                                                                       it->row * (size_t)(y + 1);
  const double *const here = it->now + it->row * (size_t)y;
  double *const next = it->next + it->row * (size_t)y;
  size_t const last = it->row, step = (size_t)it->fields;
  for (size_t i = 0; i < step; i++)
    next[i] = 0.2 * (here[i] + above[i] + below[i] + here[i + step] + here[last - step + i]);
  for (size_t i = step; i < last - step; i++)
    next[i] = 0.2 * (here[i] + above[i] + below[i] + here[i + step] + here[i - step]);
  for (size_t i = last - step; i < last; i++)
    next[i] = 0.2 * (here[i] + above[i] + below[i] + here[i + step - last] + here[i - step]);
}

static double step(struct field *it, int up, int down) {
  MPI_Request requests[4];
  int const size = (int)it->row;
  double *const now = it->now;
  size_t const rows = (size_t)it->rows;
  MPI_Irecv(now, size, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(now + it->row * (rows + 1), size, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(now + it->row * rows, size, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(now + it->row, size, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[3]);
  double start = now_s();
  for (int y = 2; y < it->rows; y++)
    compute_row(it, y);
  double computing = now_s() - start;
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  start = now_s();
  compute_row(it, 1);
  compute_row(it, it->rows);
  computing += now_s() - start;
  it->now = it->next;
  it->next = now;
  return computing;
}

int main(int count, char **words) {
  int rank = 0, ranks = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct field it = {.columns = (int)number_option(count, words, 1, 4096),
                     .fields = (int)number_option(count, words, 2, 32),
                     .rows = (int)number_option(count, words, 3, 48)};
  int const steps = (int)number_option(count, words, 4, 40);
  it.row = (size_t)it.columns * (size_t)it.fields;
  it.now = allocate(sizeof(double) * it.row * (size_t)(it.rows + 2));
  it.next = allocate(sizeof(double) * it.row * (size_t)(it.rows + 2));
  for (int y = 1; y <= it.rows; y++)
    for (size_t i = 0; i < it.row; i++)
      it.now[it.row * (size_t)y + i] = (double)((i * 7 + (size_t)(rank * it.rows + y) * 13) % 101);
  memcpy(it.next, it.now, sizeof(double) * it.row * (size_t)(it.rows + 2));
  int const up = (rank + ranks - 1) % ranks, down = (rank + 1) % ranks;

  step(&it, up, down);  // connects
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = now_s();
  double computing = 0;
  for (int i = 0; i < steps; i++)
    computing += step(&it, up, down);
  MPI_Barrier(MPI_COMM_WORLD);
  double const took = now_s() - start;
  double mine = 0, sum = 0;
  for (int y = 1; y <= it.rows; y++)
    for (size_t i = 0; i < it.row; i++)
      mine += it.now[it.row * (size_t)y + i] * (double)(1 + (i + (size_t)y) % 3);
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    figure("step", took / steps);
    figure("computing", computing / steps);
    figure("checksum", sum);
  }
  free(it.now);
  free(it.next);
  MPI_Finalize();
}
