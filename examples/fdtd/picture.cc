#include "picture.hpp"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace fdtd {
namespace {

struct color {
  float red, green, blue;
};

// Diverging, dark in the middle: blue for negative, red to yellow for positive.
color color_of(float value) {
  static constexpr color stops[] = {{0.80f, 0.96f, 1.00f}, {0.38f, 0.76f, 0.95f}, {0.13f, 0.44f, 0.82f},
                                    {0.07f, 0.19f, 0.45f}, {0.04f, 0.05f, 0.09f}, {0.42f, 0.10f, 0.13f},
                                    {0.80f, 0.25f, 0.13f}, {0.98f, 0.60f, 0.22f}, {1.00f, 0.95f, 0.72f}};
  constexpr int last = int(sizeof stops / sizeof stops[0]) - 1;
  float const at = (std::clamp(value, -1.0f, 1.0f) + 1) * 0.5f * last;
  int const low = std::min(int(at), last - 1);
  float const part = at - float(low);
  const color &a = stops[low], &b = stops[low + 1];
  return {a.red + part * (b.red - a.red), a.green + part * (b.green - a.green), a.blue + part * (b.blue - a.blue)};
}

// Faint waves, as behind a scatterer, are lifted: where a value, as a share of the limit, lies on the bar.
float place_on_bar(float share) { return std::copysign(std::pow(std::min(std::fabs(share), 1.0f), 0.7f), share); }

class image {
 public:
  image(int width, int height) : width_(width), height_(height), pixels_(std::size_t(width) * height * 3, 0) {}
  void fill(color c) {
    for (int y = 0; y < height_; y++)
      for (int x = 0; x < width_; x++) blend(x, y, c, 1);
  }
  void blend(int x, int y, color c, float share) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    float const parts[] = {c.red, c.green, c.blue};
    uint8_t *const pixel = &pixels_[(std::size_t(y) * width_ + x) * 3];
    for (int i = 0; i < 3; i++) pixel[i] = uint8_t(std::lround((1 - share) * pixel[i] + share * 255 * parts[i]));
  }
  void save(const std::string &path) const;

 private:
  int width_, height_;
  std::vector<uint8_t> pixels_;
};

void image::save(const std::string &path) const {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = png_uint_32(width_);
  header.height = png_uint_32(height_);
  header.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&header, path.c_str(), 0, pixels_.data(), 0, nullptr) == 0)
    throw std::runtime_error("cannot write " + path + ": " + header.message);
}

// Five by seven, a row a byte, for the legend's numbers.
struct glyph {
  char letter;
  uint8_t rows[7];
};
constexpr glyph glyphs[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},      {'2', {14, 17, 1, 2, 4, 8, 31}},
    {'3', {31, 2, 4, 2, 1, 17, 14}},     {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},       {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}},   {'-', {0, 0, 0, 31, 0, 0, 0}},       {'+', {0, 4, 4, 31, 4, 4, 0}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {'E', {31, 16, 16, 30, 16, 16, 31}}, {'z', {0, 0, 31, 2, 4, 8, 31}}};

void write_words(image &target, int x, int y, const char *words, int scale) {
  for (; *words != 0; words++, x += 6 * scale)
    for (const glyph &g : glyphs) {
      if (g.letter != *words) continue;
      for (int row = 0; row < 7 * scale; row++)
        for (int column = 0; column < 5 * scale; column++)
          if ((g.rows[row / scale] >> (4 - column / scale) & 1) != 0)
            target.blend(x + column, y + row, {0.85f, 0.87f, 0.90f}, 1);
    }
}

// The field at a point between cells, by Catmull-Rom splines: waves stay round where they are few cells long.
float interpolate(const std::vector<float> &values, int n, float x, float y) {
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
      int const column = std::clamp(i + a - 1, 0, n - 1), row = std::clamp(j + b - 1, 0, n - 1);
      sum += along_x[a] * along_y[b] * values[std::size_t(row) * n + column];
    }
  return sum;
}

// The value that all but one in two hundred stay below.
float robust_limit(const std::vector<float> &field) {
  std::vector<float> sizes(field.size());
  std::transform(field.begin(), field.end(), sizes.begin(), [](float value) { return std::fabs(value); });
  auto const at = sizes.begin() + std::ptrdiff_t(sizes.size() * 995 / 1000);
  std::nth_element(sizes.begin(), at, sizes.end());
  return *at > 0 ? *at : 1.0f;
}

// Share of `kind` around each cell, smoothed so that its half-way line is a curve and not stairs.
std::vector<float> smooth_mask(const slice &drawn, uint8_t kind) {
  int const n = int(drawn.n);
  std::vector<float> mask(drawn.material.size());
  for (std::size_t i = 0; i < mask.size(); i++) mask[i] = drawn.material[i] == kind ? 1.0f : 0.0f;
  for (int pass = 0; pass < 4; pass++) {
    std::vector<float> const before = mask;
    for (int y = 0; y < n; y++)
      for (int x = 0; x < n; x++) {
        float sum = 0;
        for (int b = -1; b <= 1; b++)
          for (int a = -1; a <= 1; a++) {
            float const weight = (2.0f - std::abs(a)) * (2.0f - std::abs(b)) / 16;
            sum += weight * before[std::size_t(std::clamp(y + b, 0, n - 1)) * n + std::clamp(x + a, 0, n - 1)];
          }
        mask[std::size_t(y) * n + x] = sum;
      }
  }
  return mask;
}

struct frame {
  int left, top, size;
};

void draw_outlines(image &target, const slice &drawn, frame where) {
  uint8_t const kinds = *std::max_element(drawn.material.begin(), drawn.material.end());
  float const scale = float(where.size) / float(drawn.n);
  for (uint8_t kind = 1; kind <= kinds; kind++) {
    std::vector<float> const mask = smooth_mask(drawn, kind);
    auto const share = [&](float x, float y) {
      return interpolate(mask, int(drawn.n), x / scale - 0.5f, y / scale - 0.5f) - 0.5f;
    };
    for (int y = 0; y < where.size; y++)
      for (int x = 0; x < where.size; x++) {
        float const px = float(x) + 0.5f, py = float(y) + 0.5f, here = share(px, py);
        if (std::fabs(here) > 0.45f) continue;
        float const slope =
            std::hypot(share(px + 1, py) - share(px - 1, py), share(px, py + 1) - share(px, py - 1)) / 2;
        float const cover = std::clamp(1.6f - std::fabs(here) / std::max(slope, 1e-4f), 0.0f, 1.0f);
        if (kind > 1 && (x + y) / 9 % 2 != 0) continue;  // dashes for what loses energy
        target.blend(where.left + x, where.top + where.size - 1 - y, {0.93f, 0.95f, 0.97f}, 0.85f * cover);
      }
  }
}

void draw_legend(image &target, frame where, float limit) {
  int const left = where.left + where.size + 28, width = 22, height = where.size - 60, top = where.top + 40;
  write_words(target, left, where.top + 4, "Ez", 2);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) target.blend(left + x, top + y, color_of(1 - 2 * float(y) / float(height - 1)), 1);
  for (float const share : {-1.0f, -0.5f, -0.2f, 0.0f, 0.2f, 0.5f, 1.0f}) {
    char words[24];
    std::snprintf(words, sizeof words, share == 0 ? "0" : "%+.2f", double(limit * share));
    int const y = top + int(std::lround((1 - place_on_bar(share)) / 2 * float(height - 1)));
    for (int x = 0; x < 6; x++) target.blend(left + width + x, y, {0.85f, 0.87f, 0.90f}, 1);
    write_words(target, left + width + 12, y - 7, words, 2);
  }
}

}  // namespace

void write_picture(const std::string &path, const slice &drawn) {
  int const n = int(drawn.n), size = std::max(800 / n, 1) * n;
  frame const where{20, 20, size};
  image target(size + 40 + 130, size + 40);
  target.fill({0.075f, 0.08f, 0.10f});
  float const limit = robust_limit(drawn.field), scale = float(size) / float(n);
  for (int y = 0; y < size; y++)
    for (int x = 0; x < size; x++) {
      // Ez lies on the corners of cells, the materials in their middle.
      float const value = interpolate(drawn.field, n, (float(x) + 0.5f) / scale, (float(y) + 0.5f) / scale);
      target.blend(where.left + x, where.top + size - 1 - y, color_of(place_on_bar(value / limit)), 1);
    }
  draw_outlines(target, drawn, where);
  draw_legend(target, where, limit);
  target.save(path);
}

}  // namespace fdtd
