// examples/stencil2d/places.hpp: the tile of each PE.
#pragma once

#include "tile.hpp"

namespace stencil2d {

/// PEs in rows, as close to a square as their number allows.
struct places {
  int count, across, down;

  explicit places(int pe_count) : count(pe_count), across(1), down(pe_count) {
    for (int width = 1; width * width <= pe_count; width++)
      if (pe_count % width == 0) {
        across = pe_count / width;
        down = width;
      }
  }
  int x(int pe) const {
    return pe % across;
  }
  int y(int pe) const {
    return pe / across;
  }

  /// -1: there is no neighbour.
  int neighbour(int pe, u32 d) const {
    u32 const place = d < 4 ? d : d + 1;  // the middle of three times three is the PE itself
    int const there_x = x(pe) + int(place % 3) - 1, there_y = y(pe) + int(place / 3) - 1;
    return there_x < 0 || there_x >= across || there_y < 0 || there_y >= down
               ? -1
               : there_y * across + there_x;
  }
};

/// The initial value of the grid, also one cell outside its edge on every side.
inline double first_value(long row, long column) {
  u64 const mixed = (u64(row + 1) * 2654435761u) ^ (u64(column + 1) * 40503u * 65537u);
  return double(mixed % 100003) / 100003.0;
}

}  // namespace stencil2d
