// examples/ga_stencil9/sweep.h: several steps of the stencil in one pass over a rank's block.
#ifndef GA_STENCIL9_SWEEP_H
#define GA_STENCIL9_SWEEP_H

#include <stddef.h>

enum { FLOPS_A_CELL = 11 };

/// A rank's part of a grid of size x size cells: rows [row, row + rows), columns [column, column +
/// columns).
typedef struct block {
  int size, row, column, rows, columns;
} block;

/// The neighbours' cells around a block, `depth` deep, as they are before a sweep. Cells outside
/// the grid are never read.
typedef struct halos {
  int depth;
  double *north, *south;  ///< depth x columns
  double *west, *east;    ///< rows x depth
  double *corners[4];     ///< depth x depth: northwest, northeast, southwest, southeast
} halos;

/// The doubles of memory that sweep() needs for `depth` steps at once.
static inline size_t work_count(const block *mine, int depth) {
  return (size_t)depth * 3 * ((size_t)mine->columns + 2 * (size_t)depth);
}

/// Applies `steps` steps, at most around->depth, to `cells`, which have `columns` contiguous
/// doubles in each row. The outermost cells of the grid keep their values. Each row goes through
/// all steps as soon as the rows below it are available, with three rows of each step at a time.
/// `work` holds these rows, which fit into a cache, so the block crosses memory once in a sweep.
/// The sweep is in place: a row is copied before it is written. Every cell is computed by the same
/// operations in the same order, independent of `steps` and the block.
void sweep(const block *mine, const halos *around, int steps, double *cells, double *work);

/// The same on a whole grid of size x size, one step at a time, in the simplest form. The result is
/// in `cells`; `other` has the same size.
void sweep_whole_grid(int size, int steps, double *cells, double *other);

#endif  // GA_STENCIL9_SWEEP_H
