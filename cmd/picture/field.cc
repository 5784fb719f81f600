// cmd/picture/field.cc: draws a plane of a field and its color bar.
#include "field.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tanada::picture {
namespace {

constexpr int bar_area_width = 130;  // pixels to the right of a plane

// The position on the bar of a value as a fraction of the limit. Faint waves, as behind a
// scatterer, are amplified.
float bar_position(float fraction) {
  return std::copysign(std::pow(std::min(std::fabs(fraction), 1.0f), 0.7f), fraction);
}

}  // namespace

float robust_limit(const std::vector<float> &values) {
  if (values.empty())
    return 0;
  std::vector<float> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), [](float value) {
    return std::isnan(value) ? 0.0f : std::fabs(value);
  });
  auto const nth = magnitudes.begin() + std::ptrdiff_t(magnitudes.size() * 995 / 1000);
  std::nth_element(magnitudes.begin(), nth, magnitudes.end());
  return *nth;
}

float interpolate(const plane &field, float x, float y) {
  int const i = int(std::floor(x)), j = int(std::floor(y));
  auto const spline = [](float t, float(&weights)[4]) {
    weights[0] = 0.5f * t * (-1 + t * (2 - t));
    weights[1] = 0.5f * (2 + t * t * (3 * t - 5));
    weights[2] = 0.5f * t * (1 + t * (4 - 3 * t));
    weights[3] = 0.5f * t * t * (t - 1);
  };
  float along_x[4], along_y[4], sum = 0;
  spline(x - float(i), along_x);
  spline(y - float(j), along_y);
  for (int b = 0; b < 4; b++)
    for (int a = 0; a < 4; a++) {
      int const column = std::clamp(i + a - 1, 0, field.width - 1),
                row = std::clamp(j + b - 1, 0, field.height - 1);
      sum += along_x[a] * along_y[b] * field.values[field.cell(column, row)];
    }
  return sum;
}

frame fit(const plane &field, int left_edge, int top_edge, int size) {
  int const longest_side = std::max(field.width, field.height);
  if (longest_side > size) {
    auto const scaled = [&](int cells) {
      return std::max(int(std::int64_t(cells) * size / longest_side), 1);
    };
    return {left_edge, top_edge, scaled(field.width), scaled(field.height)};
  }
  int const scale = size / longest_side;
  return {left_edge, top_edge, field.width * scale, field.height * scale};
}

image make_canvas(const frame &bounds) {
  image canvas(bounds.x + bounds.width + 20 + bar_area_width,
               bounds.y + std::max(bounds.height, 120) + 20);
  canvas.fill(background);
  return canvas;
}

void draw_field(image &target, const frame &bounds, const plane &field, float limit, float offset) {
  float const cells_x = float(field.width) / float(bounds.width),
              cells_y = float(field.height) / float(bounds.height);
  for (int y = 0; y < bounds.height; y++)
    for (int x = 0; x < bounds.width; x++) {
      float const value = interpolate(
          field, (float(x) + 0.5f) * cells_x - offset, (float(y) + 0.5f) * cells_y - offset);
      color const pixel_color = std::isnan(value) ? ink : color_of(bar_position(value / limit));
      target.blend(bounds.x + x, bounds.y + bounds.height - 1 - y, pixel_color, 1);
    }
}

void draw_bar(image &target, const frame &bounds, const std::string &title, float limit) {
  int const bar_left = bounds.x + bounds.width + 28, width = 22;
  int const height = std::max(bounds.height, 120) - 60, top = bounds.y + 40;
  target.write(bar_left, bounds.y + 4, title);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      target.blend(bar_left + x, top + y, color_of(1 - 2 * float(y) / float(height - 1)), 1);
  bool const plain = limit >= 0.1f && limit < 1000;
  for (float const fraction : {-1.0f, -0.5f, -0.2f, 0.0f, 0.2f, 0.5f, 1.0f}) {
    if (height < 160 && std::fabs(fraction) > 0 && std::fabs(fraction) < 1)
      continue;  // the labels between the ends do not fit
    char label[24];
    std::snprintf(label,
                  sizeof label,
                  fraction == 0 ? "0"
                  : plain       ? "%+.2f"
                                : "%+.0e",
                  double(limit * fraction));
    int const y = top + int(std::lround((1 - bar_position(fraction)) / 2 * float(height - 1)));
    for (int x = 0; x < 6; x++)
      target.blend(bar_left + width + x, y, ink, 1);
    target.write(bar_left + width + 12, y - 7, label);
  }
}

}  // namespace tanada::picture
