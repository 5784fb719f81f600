// examples/stencil2d/check.hpp: the same steps on the whole grid, by one processor.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "places.hpp"

namespace stencil2d {

/// The largest relative difference between a tile after `steps` and the whole grid.
inline double largest_difference(const places &all,
                                 const layout &tile,
                                 const weights &w,
                                 unsigned steps,
                                 int pe,
                                 const std::vector<double> &cells) {
  long const rows = long(tile.rows) * all.down, columns = long(tile.columns) * all.across,
             pitch = columns + 2;
  std::vector<double> from(std::size_t(rows + 2) * std::size_t(pitch)), to;
  for (long i = -1; i <= rows; i++)
    for (long j = -1; j <= columns; j++)
      from[std::size_t((i + 1) * pitch + j + 1)] = first_value(i, j);
  to = from;
  for (unsigned step = 0; step < steps; step++, std::swap(from, to)) {
    for (long i = 1; i <= rows; i++) {
      double const *const row = &from[std::size_t(i * pitch)], *const above = row - pitch,
                          *const below = row + pitch;
      for (long j = 1; j <= columns; j++)
        to[std::size_t(i * pitch + j)] =
            w.centre * row[j] + w.cardinal * (above[j] + below[j] + row[j - 1] + row[j + 1]) +
            w.diagonal * (above[j - 1] + above[j + 1] + below[j - 1] + below[j + 1]);
    }
  }
  double largest = 0;
  for (long i = 0; i < long(tile.rows); i++) {
    for (long j = 0; j < long(tile.columns); j++) {
      double const want = from[std::size_t((all.y(pe) * long(tile.rows) + i + 1) * pitch +
                                           all.x(pe) * long(tile.columns) + j + 1)];
      double const got = cells[std::size_t(i) * tile.columns + std::size_t(j)];
      double const difference = std::abs(got - want) / std::max(1e-300, std::abs(want));
      largest = difference <= largest ? largest : difference;  // NaN counts
    }
  }
  return largest;
}

}  // namespace stencil2d
