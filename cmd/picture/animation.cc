// cmd/picture/animation.cc: writes animated GIFs through libgd.
#include "animation.hpp"

#include <gd.h>

#include <cmath>
#include <new>
#include <stdexcept>
#include <utility>

namespace tanada::picture {
namespace {

constexpr int grey_count = 16;
constexpr int nearest_bits = 6;
static_assert(grey_count > 1 && grey_count + 1 < gdMaxColors);
static_assert(nearest_bits > 0 && nearest_bits <= 8);

// Allocates color_of() in equal steps, then greys for the background, text and lines.
void allocate_colors(gdImageStruct &target) {
  auto const add = [&target](const color &c) {
    auto const part = [](float fraction) {
      return int(std::lround(255 * fraction));
    };
    gdImageColorAllocate(&target, part(c.red), part(c.green), part(c.blue));
  };
  constexpr int steps = gdMaxColors - grey_count;
  for (int i = 0; i < steps; i++)
    add(color_of(2 * float(i) / float(steps - 1) - 1));
  for (int i = 0; i < grey_count; i++) {
    float const fraction = float(i) / float(grey_count - 1);
    auto const mix = [fraction](float color::*part) {
      return background.*part + fraction * (ink.*part - background.*part);
    };
    add({mix(&color::red), mix(&color::green), mix(&color::blue)});
  }
}

}  // namespace

animation::animation(std::string path, int delay_ms)
    : path_(std::move(path)),
      delay_ms_(delay_ms),
      color_indexes_(std::size_t(1) << 3 * nearest_bits, -1) {}

int animation::color_index(int pixel) {
  int const red = gdTrueColorGetRed(pixel);
  int const green = gdTrueColorGetGreen(pixel);
  int const blue = gdTrueColorGetBlue(pixel);
  constexpr int dropped_bits = 8 - nearest_bits;
  std::size_t key = 0;
  for (int const part : {red, green, blue}) {
    key = key << nearest_bits | std::size_t(part >> dropped_bits);
  }
  int &cached_index = color_indexes_[key];
  if (cached_index < 0)
    cached_index = gdImageColorClosest(pixels_.get(), red, green, blue);
  return cached_index;
}

void animation::add(const image &frame) {
  if (!file_) {
    pixels_.reset(gdImageCreate(frame.width(), frame.height()));
    if (pixels_ == nullptr)
      throw std::bad_alloc{};
    allocate_colors(*pixels_);
    file_.emplace(path_);
    constexpr int use_global_palette = 1, repeat_forever = 0;
    gdImageGifAnimBegin(pixels_.get(), file_->get(), use_global_palette, repeat_forever);
  }
  if (frame.width() != gdImageSX(pixels_) || frame.height() != gdImageSY(pixels_))
    throw std::runtime_error("cannot write " + path_ + ": its frames differ in size");
  for (int y = 0; y < frame.height(); y++)
    for (int x = 0; x < frame.width(); x++) {
      int const index = color_index(gdImageTrueColorPixel(&frame.gd(), x, y));
      gdImagePalettePixel(pixels_, x, y) = static_cast<unsigned char>(index);
    }
  constexpr int with_own_colors = 0, left_offset = 0, top_offset = 0;
  gdImageGifAnimAdd(pixels_.get(),
                    file_->get(),
                    with_own_colors,
                    left_offset,
                    top_offset,
                    delay_ms_ / 10,
                    gdDisposalNone,
                    nullptr);
  file_->check();
}

void animation::finish() {
  if (!file_)
    throw std::runtime_error("cannot write " + path_ + ": no frames");
  gdImageGifAnimEnd(file_->get());
  file_->finish();
}

}  // namespace tanada::picture
