// cmd/picture/field.hpp: draws a plane of a field in colours, with a bar that explains them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "image.hpp"

namespace tanada::picture {

/// `width` x `height` cells, with the horizontal index varying fastest. The vertical index grows
/// upwards in the picture.
struct plane {
  int width = 0, height = 0;
  std::vector<float> values;
  std::size_t cell(int x, int y) const {
    return std::size_t(y) * std::size_t(width) + std::size_t(x);
  }
};

/// The position of a plane in an image, in pixels.
struct frame {
  int x, y, width, height;
};

/// The bound on |value| of all but one cell in two hundred; may be 0. NaN counts as zero.
float robust_limit(const std::vector<float> &values);

/// Interpolates the value at a point between cells by Catmull-Rom splines, so that waves of few
/// cells stay round.
float interpolate(const plane &field, float x, float y);

/// The largest frame with the shape of `field`, in whole pixels for each cell, up to `size`. Larger
/// planes are scaled down.
frame fit(const plane &field, int left_edge, int top_edge, int size);

/// Creates an image with space for a plane in `bounds` and its bar.
image make_canvas(const frame &bounds);

/// Draws values from -limit to limit, which must be above 0, in colours. `offset`: the position of
/// a value in its cell, 0.5 in the middle, 0 at the corner.
void draw_field(image &target, const frame &bounds, const plane &field, float limit, float offset);

/// Draws the titled bar to the right of `bounds`.
void draw_bar(image &target, const frame &bounds, const std::string &title, float limit);

}  // namespace tanada::picture
