// picture/field.hpp: a plane of a field as colours, with the bar that explains them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "image.hpp"

namespace tanada::picture {

/// `width` x `height` cells, the horizontal index fastest; the second one grows upwards in the
/// picture.
struct plane {
  int width = 0, height = 0;
  std::vector<float> values;
  std::size_t cell(int x, int y) const {
    return std::size_t(y) * std::size_t(width) + std::size_t(x);
  }
};

/// Where a plane lies in an image, in pixels.
struct frame {
  int left, top, width, height;
};

/// What |value| stays below in all but one cell of two hundred; 0 is possible. NaN counts as zero.
float robust_limit(const std::vector<float> &values);

/// The value at a point between cells, by Catmull-Rom splines: waves stay round where they are few
/// cells long.
float interpolate(const plane &drawn, float x, float y);

/// The largest frame with the shape of `drawn`, in whole pixels a cell up to `size`; large planes
/// are made smaller.
frame fit(const plane &drawn, int left, int top, int size);

/// An image with room for a plane in `where` and its bar.
image make_canvas(const frame &where);

/// Colours for values from -limit to limit, which is above 0. `offset`: where a value lies in its
/// cell, 0.5 in the middle, 0 at the corner.
void draw_field(image &target, const frame &where, const plane &drawn, float limit, float offset);

/// The bar at the right of `where`, titled.
void draw_bar(image &target, const frame &where, const std::string &title, float limit);

}  // namespace tanada::picture
