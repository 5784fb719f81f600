#include "image.hpp"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tanada::picture {
namespace {

// Five by seven, a row a byte.
struct glyph {
  char letter;
  uint8_t rows[7];
};
constexpr glyph glyphs[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},      {'2', {14, 17, 1, 2, 4, 8, 31}},
    {'3', {31, 2, 4, 2, 1, 17, 14}},     {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},       {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}},   {'-', {0, 0, 0, 31, 0, 0, 0}},       {'+', {0, 4, 4, 31, 4, 4, 0}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {'E', {31, 16, 16, 30, 16, 16, 31}}, {'H', {17, 17, 17, 31, 17, 17, 17}},
    {'x', {0, 0, 17, 10, 4, 10, 17}},    {'y', {0, 0, 17, 17, 15, 1, 14}},    {'z', {0, 0, 31, 2, 4, 8, 31}},
    {'e', {0, 0, 14, 17, 31, 16, 14}},   {'p', {0, 0, 30, 17, 30, 16, 16}},   {'s', {0, 0, 15, 16, 14, 1, 30}},
    {'t', {8, 8, 28, 8, 8, 9, 6}}};

}  // namespace

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

void image::fill(color c) {
  for (int y = 0; y < height_; y++)
    for (int x = 0; x < width_; x++) blend(x, y, c, 1);
}

void image::blend(int x, int y, color c, float share) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  float const parts[] = {c.red, c.green, c.blue};
  uint8_t *const pixel = &pixels_[(std::size_t(y) * width_ + x) * 3];
  for (int i = 0; i < 3; i++) pixel[i] = uint8_t(std::lround((1 - share) * pixel[i] + share * 255 * parts[i]));
}

void image::write(int x, int y, const std::string &words, int scale) {
  for (char const letter : words) {
    for (const glyph &g : glyphs) {
      if (g.letter != letter) continue;
      for (int row = 0; row < 7 * scale; row++)
        for (int column = 0; column < 5 * scale; column++)
          if ((g.rows[row / scale] >> (4 - column / scale) & 1) != 0) blend(x + column, y + row, ink, 1);
    }
    x += 6 * scale;
  }
}

void save_png(const image &drawn, const std::string &path) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = png_uint_32(drawn.width());
  header.height = png_uint_32(drawn.height());
  header.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&header, path.c_str(), 0, drawn.pixels().data(), 0, nullptr) == 0)
    throw std::runtime_error("cannot write " + path + ": " + header.message);
}

}  // namespace tanada::picture
