// examples/fdtd/picture.hpp: draws a slice of the field as a PNG.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fdtd {

/// The slice to draw: `n` x `n` cells, x fastest, y upwards.
struct slice {
  unsigned n;
  std::vector<float> field;
  std::vector<uint8_t> material;  // 0: vacuum; the edges of other materials are outlined
};

/// Draws the slice with a bar that explains its colours. Throws std::runtime_error.
void write_picture(const std::string &path, const slice &drawn);

}  // namespace fdtd
