#include "sweep.h"

#include <string.h>

static const double CENTRE = 0.5, CARDINAL = 0.075, DIAGONAL = 0.05;

static double cell(const double *above, const double *row, const double *below, long j) {
  return CENTRE * row[j] + CARDINAL * ((above[j] + below[j]) + (row[j - 1] + row[j + 1])) +
         DIAGONAL * ((above[j - 1] + above[j + 1]) + (below[j - 1] + below[j + 1]));
}

// Computes cells [first, end) of a row. C11 and -ffp-contract=off keep products and sums apart;
// otherwise the last bit would depend on how a loop was split.
static void update_row(double *restrict to,
                       const double *restrict above,
                       const double *restrict row,
                       const double *restrict below,
                       long first,
                       long end) {
  for (long j = first; j < end; j++)
    to[j] = cell(above, row, below, j);
}

/// The rows in progress through the steps of a sweep. Positions are relative to the block: row -1
/// is the neighbour's.
typedef struct pipeline {
  const block *mine;
  const halos *around;
  int steps;
  long pitch;
  double *work;
} pipeline;

static long larger(long a, long b) {
  return a > b ? a : b;
}
static long smaller(long a, long b) {
  return a < b ? a : b;
}

// After `step` steps, the range of cells that are still valid: each step loses one at each side,
// but none at the grid's edge.
static long first_row(const pipeline *p, int step) {
  return larger(step - p->steps, -(long)p->mine->row);
}
static long end_row(const pipeline *p, int step) {
  return smaller((long)p->mine->rows + p->steps - step, (long)p->mine->size - p->mine->row);
}
static long first_column(const pipeline *p, int step) {
  return larger(step - p->steps, -(long)p->mine->column);
}
static long end_column(const pipeline *p, int step) {
  return smaller((long)p->mine->columns + p->steps - step, (long)p->mine->size - p->mine->column);
}

// Column 0 of a row of step `step`, which is not the last.
static double *row_at(const pipeline *p, int step, long row) {
  long const place = step * 3 + (row + p->steps) % 3;
  return p->work + place * p->pitch + p->steps;
}

// The neighbours' cells of columns [first, end) of a row that is not in the block.
static void load_halo_row(const pipeline *p, long row, long first, long end, double *to) {
  const halos *const around = p->around;
  long const depth = around->depth, columns = p->mine->columns;
  int const is_south = row >= 0;
  long const place =
      is_south ? row - p->mine->rows : row + depth;  // in the cells fetched from the neighbours
  const double *const middle = is_south ? around->south : around->north;
  const double *const *const corners = (const double *const *)around->corners + (is_south ? 2 : 0);
  if (first < 0)
    memcpy(to + first, corners[0] + place * depth + depth + first, (size_t)-first * sizeof *to);
  memcpy(to, middle + place * columns, (size_t)columns * sizeof *to);
  if (end > columns)
    memcpy(to + columns, corners[1] + place * depth, (size_t)(end - columns) * sizeof *to);
}

static void load_row(const pipeline *p, const double *cells, long row) {
  const block *const mine = p->mine;
  const halos *const around = p->around;
  long const depth = around->depth, first = first_column(p, 0), end = end_column(p, 0);
  double *const to = row_at(p, 0, row);
  if (row < 0 || row >= mine->rows) {
    load_halo_row(p, row, first, end, to);
    return;
  }
  if (first < 0)
    memcpy(to + first, around->west + row * depth + depth + first, (size_t)-first * sizeof *to);
  memcpy(to, cells + row * mine->columns, (size_t)mine->columns * sizeof *to);
  if (end > mine->columns)
    memcpy(
        to + mine->columns, around->east + row * depth, (size_t)(end - mine->columns) * sizeof *to);
}

static void compute_row(const pipeline *p, int step, long row, double *to) {
  const double *const before = row_at(p, step - 1, row);
  long first = first_column(p, step), end = end_column(p, step);
  if (p->mine->row + row == 0 || p->mine->row + row == p->mine->size - 1) {
    memcpy(to + first, before + first, (size_t)(end - first) * sizeof *to);
    return;
  }
  if (p->mine->column + first == 0) {
    to[first] = before[first];
    first++;
  }
  if (p->mine->column + end == p->mine->size) {
    end--;
    to[end] = before[end];
  }
  update_row(to, row_at(p, step - 1, row - 1), before, row_at(p, step - 1, row + 1), first, end);
}

void sweep(const block *mine, const halos *around, int steps, double *cells, double *work) {
  pipeline const p = {mine, around, steps, (long)mine->columns + 2 * (long)steps, work};
  for (long row = first_row(&p, 0); row < end_row(&p, 0) + steps; row++) {
    if (row < end_row(&p, 0))
      load_row(&p, cells, row);
    for (int step = 1; step <= steps; step++) {
      long const ready = row - step;
      if (ready < first_row(&p, step) || ready >= end_row(&p, step))
        continue;
      compute_row(
          &p, step, ready, step == steps ? cells + ready * mine->columns : row_at(&p, step, ready));
    }
  }
}

void sweep_whole_grid(int size, int steps, double *cells, double *other) {
  size_t const bytes = (size_t)size * (size_t)size * sizeof *cells;
  memcpy(other, cells, bytes);
  for (int step = 0; step < steps; step++) {
    for (long i = 1; i < size - 1; i++) {
      const double *const row = cells + i * size;
      for (long j = 1; j < size - 1; j++)
        other[i * size + j] = cell(row - size, row, row + size, j);
    }
    memcpy(cells, other, bytes);
  }
}
