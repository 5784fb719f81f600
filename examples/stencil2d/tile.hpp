// examples/stencil2d/tile.hpp: a PE's part of the grid, and the step that kernels apply to it.
//
// A field is one block of symmetric device memory: the cells of the tile, row by row, and then its
// surroundings, as the neighbours deliver them: a row to the north and to the south, a column to
// the west and to the east, and four corners. Each of these is contiguous, so that no neighbour has
// to scatter. There are two fields: a step reads one and writes the other. At the edge of the whole
// grid the surroundings never change.
#pragma once

#include <tanada/device/gfile.cuh>

namespace stencil2d {

using tanada::u32;
using tanada::u64;

// The direction of a neighbour. Opposite directions add up to 7.
enum direction : u32 { north_west, north, north_east, west, east, south_west, south, south_east };
inline constexpr u32 direction_count = 8;
TND_HD inline u32 opposite(u32 d) {
  return direction_count - 1 - d;
}

struct weights {
  double centre = 0.2, cardinal = 0.15, diagonal = 0.05;
};

struct span {
  u64 offset, count;  // doubles, from the beginning of a field
};

struct layout {
  u32 rows, columns;  // cells of a tile

  TND_HD u64 cells() const {
    return u64(rows) * columns;
  }
  TND_HD u64 count() const {
    return cells() + 2 * (u64(rows) + columns) + 4;
  }  // doubles of a field
  TND_HD u64 boundary_count() const {
    return 2 * (u64(rows) + columns) - 4;
  }  // cells next to another PE's cells

  /// The part that the neighbour in direction `d` delivers.
  TND_HD span ghosts(u32 d) const {
    u64 const rows_begin = cells() + 2 * u64(columns), corners = rows_begin + 2 * u64(rows);
    switch (d) {
      case north:
        return {cells(), columns};
      case south:
        return {cells() + columns, columns};
      case west:
        return {rows_begin, rows};
      case east:
        return {rows_begin + rows, rows};
      case north_west:
        return {corners, 1};
      case north_east:
        return {corners + 1, 1};
      case south_west:
        return {corners + 2, 1};
      default:
        return {corners + 3, 1};
    }
  }

  /// The position of cell (i, j) in a field, from -1 to one past the last.
  TND_HD u64 at(long i, long j) const {
    bool const is_above = i < 0, is_below = i >= long(rows), is_left = j < 0,
               is_right = j >= long(columns);
    if (!is_above && !is_below && !is_left && !is_right)
      return u64(i) * columns + u64(j);
    if (is_above)
      return ghosts(is_left    ? north_west
                    : is_right ? north_east
                               : north)
                 .offset +
             (is_left || is_right ? 0 : u64(j));
    if (is_below)
      return ghosts(is_left    ? south_west
                    : is_right ? south_east
                               : south)
                 .offset +
             (is_left || is_right ? 0 : u64(j));
    return ghosts(is_left ? west : east).offset + u64(i);
  }

  struct cell {
    u32 i, j;
  };
  /// The boundary's cells by number: the first row, the last row, the first column, the last
  /// column.
  TND_HD cell boundary_cell(u64 number) const {
    if (number < columns)
      return {0, u32(number)};
    number -= columns;
    if (number < columns)
      return {rows - 1, u32(number)};
    number -= columns;
    u32 const inner = rows - 2;
    return number < inner ? cell{u32(number) + 1, 0} : cell{u32(number - inner) + 1, columns - 1};
  }
};

/// The part of a field that the neighbour in direction `d` gets: its beginning, and the distance of
/// its cells.
struct edge {
  u64 offset, stride, count;
};
TND_HD inline edge edge_of(const layout &l, u32 d) {
  u64 const last_row = u64(l.rows - 1) * l.columns, last_column = l.columns - 1;
  switch (d) {
    case north:
      return {0, 1, l.columns};
    case south:
      return {last_row, 1, l.columns};
    case west:
      return {0, l.columns, l.rows};
    case east:
      return {last_column, l.columns, l.rows};
    case north_west:
      return {0, 1, 1};
    case north_east:
      return {last_column, 1, 1};
    case south_west:
      return {last_row, 1, 1};
    default:
      return {last_row + last_column, 1, 1};
  }
}

TND_DEVICE inline double new_value(
    const layout &l, const weights &w, const double *field, long i, long j) {
  auto const at = [&](long di, long dj) {
    return field[l.at(i + di, j + dj)];
  };
  return w.centre * at(0, 0) + w.cardinal * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) +
         w.diagonal * (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1));
}

/// A tile for kernels, passed by value.
struct tile {
  layout shape;
  weights with;
  double *fields[2];                // symmetric
  double *columns[2][2];            // of each field, packed: the columns for the west and the east;
                                    // symmetric
  int neighbours[direction_count];  // PEs; -1: the edge of the grid

  // Selected by a number unknown to compilers, without an index: otherwise the kernels' parameters
  // would be copied to each thread's stack.
  TND_HD double *field(u32 step) const {
    return step % 2 == 0 ? fields[0] : fields[1];
  }
  TND_HD double *column(u32 step, u32 side) const {
    return step % 2 == 0 ? side == 0 ? columns[0][0] : columns[0][1]
           : side == 0 ? columns[1][0]
                         : columns[1][1];
  }
  TND_HD int neighbour(u32 d) const {
    int found = -1;
    TND_UNROLL
    for (u32 k = 0; k < direction_count; k++)
      found = k == d ? neighbours[k] : found;
    return found;
  }
};

/// A row's contribution to a cell's new value: the cell in the same column, and the two beside it.
struct row_part {
  double middle, sides;
};
TND_DEVICE inline row_part part_of(const double *cell) {
  return {cell[0], cell[-1] + cell[1]};
}

/// The interior cells, in pieces: as many columns as a block has threads, and as many rows as
/// given. A thread moves down its column and keeps the contributions of two rows, so that each row
/// is loaded once for the three that use it.
struct pieces {
  u32 across, down, rows;  // pieces beside and below one another; rows of one

  static constexpr u32 rows_max = 16, few = 1024;  // pieces for good use of a device

  TND_HD pieces(const layout &l, u32 threads) {
    u32 const inner = l.rows < 2 ? 0 : l.rows - 2;
    across = l.columns < 3 ? 0 : (l.columns - 2 + threads - 1) / threads;
    rows = u32(u64(inner) * across / few);
    rows = rows < 4 ? 4 : rows > rows_max ? rows_max : rows;
    down = (inner + rows - 1) / rows;
  }
  TND_HD u32 count() const {
    return across * down;
  }
};

TND_DEVICE inline void step_piece(const tile &t, const pieces &of, u32 step, u32 number) {
  u64 const columns = t.shape.columns, j = 1 +
                                           u64(number % of.across) * tanada::simt::block_size_x() +
                                           tanada::simt::thread_index_x();
  u32 const begin = 1 + number / of.across * of.rows, most = t.shape.rows - 1,
            end = most - begin < of.rows ? most : begin + of.rows;
  if (j + 1 >= columns)
    return;
  const double *from = t.field(step) + u64(begin - 1) * columns + j;
  double *to = t.field(step + 1) + u64(begin) * columns + j;
  row_part above = part_of(from);
  from += columns;
  row_part here = part_of(from);
  auto const put = [&](const row_part &below) {
    *to = t.with.centre * here.middle +
          t.with.cardinal * (above.middle + below.middle + here.sides) +
          t.with.diagonal * (above.sides + below.sides);
    to += columns;
    above = here;
    here = below;
  };
  constexpr u32 at_once = 4;  // loads of this many rows before the first is waited for
  u32 i = begin;
  for (; i + at_once <= end; i += at_once) {
    row_part rows[at_once];
    TND_UNROLL
    for (u32 k = 0; k < at_once; k++) {
      from += columns;
      rows[k] = part_of(from);
    }
    TND_UNROLL
    for (u32 k = 0; k < at_once; k++)
      put(rows[k]);
  }
  for (; i < end; i++) {
    from += columns;
    put(part_of(from));
  }
}

static TND_KERNEL void step_interior(tile t, u32 step) {
  pieces const all(t.shape, tanada::simt::block_size_x());
  for (u32 number = tanada::simt::block_index_x(); number < all.count();
       number += tanada::simt::grid_size_x())
    step_piece(t, all, step, number);
}

/// Cell `number` of the boundary, including the packed columns.
TND_DEVICE inline double step_boundary_cell(const tile &t, u32 step, u64 number) {
  auto const cell = t.shape.boundary_cell(number);
  double const value = new_value(t.shape, t.with, t.field(step), cell.i, cell.j);
  t.field(step + 1)[u64(cell.i) * t.shape.columns + cell.j] = value;
  if (cell.j == 0)
    t.column(step + 1, 0)[cell.i] = value;
  if (cell.j == t.shape.columns - 1)
    t.column(step + 1, 1)[cell.i] = value;
  return value;
}

static TND_KERNEL void step_boundary(tile t, u32 step) {
  u64 const all = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count();
  for (u64 number = tanada::simt::global_thread_rank(); number < t.shape.boundary_count();
       number += all)
    (void)step_boundary_cell(t, step, number);
}

/// The contiguous part of a field that the neighbour in direction `d` gets.
TND_HD inline const double *outgoing(const tile &t, u32 field, u32 d) {
  if (d == west)
    return t.column(field, 0);
  if (d == east)
    return t.column(field, 1);
  return t.field(field) + edge_of(t.shape, d).offset;
}

}  // namespace stencil2d
