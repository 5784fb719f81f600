// picture/image.hpp: pixels, colours and words: what the programs that draw have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tanada::picture {

/// Parts from 0 to 1.
struct color {
  float red, green, blue;
};

inline constexpr color background = {0.075f, 0.08f, 0.10f};
inline constexpr color ink = {0.85f, 0.87f, 0.90f};

/// Diverging, dark in the middle: blue for negative, red to yellow for positive. `value` from -1 to 1; more is cut off.
color color_of(float value);

/// Pixels of 8-bit red, green and blue, from the top left.
class image {
 public:
  image(int width, int height) : width_(width), height_(height), pixels_(std::size_t(width) * height * 3, 0) {}
  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }
  const std::vector<uint8_t> &pixels() const noexcept { return pixels_; }

  void fill(color c);
  /// Put `share` (0 to 1) of `c` over a pixel; outside of the image nothing happens.
  void blend(int x, int y, color c, float share);
  /// Letters of 5 x 7 pixels times `scale`. Those that no legend needs stay blank.
  void write(int x, int y, const std::string &words, int scale);

 private:
  int width_, height_;
  std::vector<uint8_t> pixels_;
};

/// Write a PNG. Throws std::runtime_error.
void save_png(const image &drawn, const std::string &path);

}  // namespace tanada::picture
