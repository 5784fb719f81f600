// cmd/picture/image.cc: pixels, text and PNG files through libgd.
#include "image.hpp"

#include <gd.h>
#include <gdfontg.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace tanada::picture {

color color_of(float value) {
  static constexpr color stops[] = {{0.80f, 0.96f, 1.00f},
                                    {0.38f, 0.76f, 0.95f},
                                    {0.13f, 0.44f, 0.82f},
                                    {0.07f, 0.19f, 0.45f},
                                    {0.04f, 0.05f, 0.09f},
                                    {0.42f, 0.10f, 0.13f},
                                    {0.80f, 0.25f, 0.13f},
                                    {0.98f, 0.60f, 0.22f},
                                    {1.00f, 0.95f, 0.72f}};
  constexpr int last = int(sizeof stops / sizeof stops[0]) - 1;
  static_assert(last > 0 && last % 2 == 0);  // the middle one is the color of zero
  float const position = (std::clamp(value, -1.0f, 1.0f) + 1) * 0.5f * last;
  int const low = std::min(int(position), last - 1);
  float const fraction = position - float(low);
  const color &a = stops[low], &b = stops[low + 1];
  return {a.red + fraction * (b.red - a.red),
          a.green + fraction * (b.green - a.green),
          a.blue + fraction * (b.blue - a.blue)};
}

void image_destroyer::operator()(gdImageStruct *picture) const noexcept {
  gdImageDestroy(picture);
}

image::image(int width, int height) : pixels_{gdImageCreateTrueColor(width, height)} {
  if (pixels_ == nullptr)
    throw std::bad_alloc{};
}

int image::width() const noexcept {
  return gdImageSX(pixels_);
}
int image::height() const noexcept {
  return gdImageSY(pixels_);
}

void image::fill(color c) {
  for (int y = 0; y < height(); y++)
    for (int x = 0; x < width(); x++)
      blend(x, y, c, 1);
}

void image::blend(int x, int y, color c, float fraction) {
  if (gdImageBoundsSafe(pixels_.get(), x, y) == 0)
    return;
  int &pixel = gdImageTrueColorPixel(pixels_, x, y);
  auto const mix = [fraction](int old_value, float part) {
    return int(std::lround((1 - fraction) * float(old_value) + fraction * 255 * part));
  };
  int const red = mix(gdTrueColorGetRed(pixel), c.red);
  int const green = mix(gdTrueColorGetGreen(pixel), c.green);
  int const blue = mix(gdTrueColorGetBlue(pixel), c.blue);
  pixel = gdTrueColor(red, green, blue);
}

void image::write(int x, int y, const std::string &text) {
  auto const part = [](float fraction) {
    return int(std::lround(255 * fraction));
  };
  std::string buffer = text;  // libgd's argument is not const
  auto *const bytes = reinterpret_cast<unsigned char *>(buffer.data());
  int const text_color = gdTrueColor(part(ink.red), part(ink.green), part(ink.blue));
  gdImageString(pixels_.get(), gdFontGetGiant(), x, y, bytes, text_color);
}

void save_png(const image &picture, const std::string &path) {
  output_file file{path};
  gdImagePng(&picture.gd(), file.get());
  file.finish();
}

output_file::output_file(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wbe")) {
  if (file_ == nullptr)
    fail(errno);
}

output_file::~output_file() {
  if (file_ == nullptr)
    return;
  (void)std::fclose(file_);
  (void)std::remove(path_.c_str());
}

void output_file::check() const {
  if (std::ferror(file_) != 0)
    fail(errno);
}

void output_file::finish() {
  if (std::fflush(file_) != 0)
    fail(errno);
  check();
  (void)std::fclose(std::exchange(file_, nullptr));
}

void output_file::fail(int error) const {
  throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(error));
}

}  // namespace tanada::picture
