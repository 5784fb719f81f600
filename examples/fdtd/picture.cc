#include "picture.hpp"

#include <algorithm>
#include <cmath>

#include <picture/field.hpp>

namespace fdtd {
namespace {

using namespace tanada::picture;

// The fraction of `kind` around each cell, smoothed so that its contour is a curve without steps.
plane smooth_mask(const slice &drawn, uint8_t kind) {
  int const n = int(drawn.n);
  plane mask{n, n, std::vector<float>(drawn.material.size())};
  for (std::size_t i = 0; i < mask.values.size(); i++)
    mask.values[i] = drawn.material[i] == kind ? 1.0f : 0.0f;
  for (int pass = 0; pass < 4; pass++) {
    plane const before = mask;
    for (int y = 0; y < n; y++)
      for (int x = 0; x < n; x++) {
        float sum = 0;
        for (int b = -1; b <= 1; b++)
          for (int a = -1; a <= 1; a++) {
            float const weight = (2.0f - std::abs(a)) * (2.0f - std::abs(b)) / 16;
            sum += weight * before.values[before.cell(std::clamp(x + a, 0, n - 1),
                                                      std::clamp(y + b, 0, n - 1))];
          }
        mask.values[mask.cell(x, y)] = sum;
      }
  }
  return mask;
}

void draw_outlines(image &target, const slice &drawn, const frame &where) {
  uint8_t const kinds = *std::max_element(drawn.material.begin(), drawn.material.end());
  float const cells = float(drawn.n) / float(where.width);
  for (uint8_t kind = 1; kind <= kinds; kind++) {
    plane const mask = smooth_mask(drawn, kind);
    auto const share = [&](float x, float y) {
      return interpolate(mask, x * cells - 0.5f, y * cells - 0.5f) - 0.5f;
    };
    for (int y = 0; y < where.height; y++)
      for (int x = 0; x < where.width; x++) {
        float const px = float(x) + 0.5f, py = float(y) + 0.5f, here = share(px, py);
        if (std::fabs(here) > 0.45f)
          continue;
        float const slope = std::hypot(share(px + 1, py) - share(px - 1, py),
                                       share(px, py + 1) - share(px, py - 1)) /
                            2;
        float const cover = std::clamp(1.6f - std::fabs(here) / std::max(slope, 1e-4f), 0.0f, 1.0f);
        if (kind > 1 && (x + y) / 9 % 2 != 0)
          continue;  // dashes for lossy materials
        target.blend(
            where.x + x, where.y + where.height - 1 - y, {0.93f, 0.95f, 0.97f}, 0.85f * cover);
      }
  }
}

}  // namespace

void write_picture(const std::string &path, const slice &drawn) {
  plane const field{int(drawn.n), int(drawn.n), drawn.field};
  frame const where = fit(field, 20, 20, std::max(800, int(drawn.n)));
  image target = make_canvas(where);
  float const found = robust_limit(drawn.field), limit = found > 0 ? found : 1;
  draw_field(target,
             where,
             field,
             limit,
             0);  // Ez is at the corners of cells, the materials at their centres
  draw_outlines(target, drawn, where);
  draw_bar(target, where, "Ez", limit);
  save_png(target, path);
}

}  // namespace fdtd
