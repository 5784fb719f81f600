// picture/image.hpp: pixels, colours and words: what the programs that draw have in common.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

struct gdImageStruct;  // libgd's

namespace tanada::picture {

/// Parts from 0 to 1.
struct color {
  float red, green, blue;
};

inline constexpr color background = {0.075f, 0.08f, 0.10f};
inline constexpr color ink = {0.85f, 0.87f, 0.90f};

/// Diverging, dark in the middle: blue for negative, red to yellow for positive.
/// `value` from -1 to 1; more is cut off.
color color_of(float value);

struct image_destroyer {
  void operator()(gdImageStruct *drawn) const noexcept;
};
using gd_image = std::unique_ptr<gdImageStruct, image_destroyer>;

/// Pixels of 8-bit red, green and blue, from the top left.
class image {
 public:
  /// Black. Throws std::bad_alloc.
  image(int width, int height);
  int width() const noexcept;
  int height() const noexcept;

  void fill(color c);
  /// Put `share` (0 to 1) of `c` over a pixel; outside of the image nothing happens.
  void blend(int x, int y, color c, float share);
  /// Letters of 9 x 15 pixels, of ISO 8859-2; (x, y) is the corner at the top left.
  void write(int x, int y, const std::string &words);

  gdImageStruct &gd() const noexcept {
    return *pixels_;
  }

 private:
  gd_image pixels_;
};

/// Write a PNG. Throws std::runtime_error.
void save_png(const image &drawn, const std::string &path);

/// A file that is written by libgd, whose calls report nothing.
/// It is removed unless it is finished.
class output_file {
 public:
  /// Throws std::runtime_error, as all calls do when something did not reach the file.
  explicit output_file(std::string path);
  output_file(const output_file &) = delete;
  output_file &operator=(const output_file &) = delete;
  ~output_file();

  std::FILE *get() const noexcept {
    return file_;
  }
  void check() const;
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  std::string const path_;
  std::FILE *file_;
};

}  // namespace tanada::picture
