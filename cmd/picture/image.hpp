// cmd/picture/image.hpp: pixels, colours and text for the programs that draw.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

struct gdImageStruct;  // of libgd

namespace tanada::picture {

/// Components from 0 to 1.
struct color {
  float red, green, blue;
};

inline constexpr color background = {0.075f, 0.08f, 0.10f};
inline constexpr color ink = {0.85f, 0.87f, 0.90f};

/// A diverging colour map, dark in the middle: blue for negative, red to yellow for positive.
/// `value` is clamped to -1 to 1.
color color_of(float value);

struct image_destroyer {
  void operator()(gdImageStruct *picture) const noexcept;
};
using gd_image = std::unique_ptr<gdImageStruct, image_destroyer>;

/// Pixels of 8-bit red, green and blue, from the top left.
class image {
 public:
  /// Creates a black image. Throws std::bad_alloc.
  image(int width, int height);
  int width() const noexcept;
  int height() const noexcept;

  void fill(color c);
  /// Blends a `fraction` (0 to 1) of `c` over a pixel. No-op outside the image.
  void blend(int x, int y, color c, float fraction);
  /// Writes text in ISO 8859-2, with letters of 9 x 15 pixels; (x, y) is the top left corner.
  void write(int x, int y, const std::string &text);

  gdImageStruct &gd() const noexcept {
    return *pixels_;
  }

 private:
  gd_image pixels_;
};

/// Writes a PNG. Throws std::runtime_error.
void save_png(const image &picture, const std::string &path);

/// A file that libgd writes. libgd's calls report no errors, so check() and finish() do. The file
/// is removed unless it is finished.
class output_file {
 public:
  /// Throws std::runtime_error, as all calls do if data did not reach the file.
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
