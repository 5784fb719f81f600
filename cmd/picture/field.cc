#include "field.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tanada::picture {
namespace {

constexpr int bar_room = 130;  // pixels at the right of a frame

// Faint waves, as behind a scatterer, are lifted: where a value, as a share of the limit, lies on
// the bar.
float place_on_bar(float share) {
  return std::copysign(std::pow(std::min(std::fabs(share), 1.0f), 0.7f), share);
}

}  // namespace

float robust_limit(const std::vector<float> &values) {
  if (values.empty())
    return 0;
  std::vector<float> sizes(values.size());
  std::transform(values.begin(), values.end(), sizes.begin(),
                 [](float value) { return std::isnan(value) ? 0.0f : std::fabs(value); });
  auto const at = sizes.begin() + std::ptrdiff_t(sizes.size() * 995 / 1000);
  std::nth_element(sizes.begin(), at, sizes.end());
  return *at;
}

float interpolate(const plane &drawn, float x, float y) {
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
      int const column = std::clamp(i + a - 1, 0, drawn.width - 1),
                row = std::clamp(j + b - 1, 0, drawn.height - 1);
      sum += along_x[a] * along_y[b] * drawn.values[drawn.cell(column, row)];
    }
  return sum;
}

frame fit(const plane &drawn, int left, int top, int size) {
  int const longer = std::max(drawn.width, drawn.height);
  if (longer > size) {
    auto const smaller = [&](int cells) {
      return std::max(int(std::int64_t(cells) * size / longer), 1);
    };
    return {left, top, smaller(drawn.width), smaller(drawn.height)};
  }
  int const scale = size / longer;
  return {left, top, drawn.width * scale, drawn.height * scale};
}

image make_canvas(const frame &where) {
  image canvas(where.left + where.width + 20 + bar_room,
               where.top + std::max(where.height, 120) + 20);
  canvas.fill(background);
  return canvas;
}

void draw_field(image &target, const frame &where, const plane &drawn, float limit, float offset) {
  float const cells_x = float(drawn.width) / float(where.width),
              cells_y = float(drawn.height) / float(where.height);
  for (int y = 0; y < where.height; y++)
    for (int x = 0; x < where.width; x++) {
      float const value = interpolate(drawn, (float(x) + 0.5f) * cells_x - offset,
                                      (float(y) + 0.5f) * cells_y - offset);
      color const shown = std::isnan(value) ? ink : color_of(place_on_bar(value / limit));
      target.blend(where.left + x, where.top + where.height - 1 - y, shown, 1);
    }
}

void draw_bar(image &target, const frame &where, const std::string &title, float limit) {
  int const left = where.left + where.width + 28, width = 22;
  int const height = std::max(where.height, 120) - 60, top = where.top + 40;
  target.write(left, where.top + 4, title);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      target.blend(left + x, top + y, color_of(1 - 2 * float(y) / float(height - 1)), 1);
  bool const plain = limit >= 0.1f && limit < 1000;
  for (float const share : {-1.0f, -0.5f, -0.2f, 0.0f, 0.2f, 0.5f, 1.0f}) {
    if (height < 160 && std::fabs(share) > 0 && std::fabs(share) < 1)
      continue;  // no room between the ends
    char words[24];
    std::snprintf(words, sizeof words,
                  share == 0 ? "0"
                  : plain    ? "%+.2f"
                             : "%+.0e",
                  double(limit * share));
    int const y = top + int(std::lround((1 - place_on_bar(share)) / 2 * float(height - 1)));
    for (int x = 0; x < 6; x++)
      target.blend(left + width + x, y, ink, 1);
    target.write(left + width + 12, y - 7, words);
  }
}

}  // namespace tanada::picture
