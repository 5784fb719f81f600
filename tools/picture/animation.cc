#include "animation.hpp"

#include <fcntl.h>
#include <gif_lib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tanada::picture {
namespace {

constexpr int color_count = 256, grey_count = 16, nearest_bits = 6;

// color_of() in equal steps, then greys for the background, words and lines.
const std::array<GifColorType, color_count> &palette() {
  static const std::array<GifColorType, color_count> colors = [] {
    std::array<GifColorType, color_count> made;
    auto const part = [](float share) { return GifByteType(std::lround(255 * share)); };
    constexpr int steps = color_count - grey_count;
    for (int i = 0; i < steps; i++) {
      color const c = color_of(2 * float(i) / float(steps - 1) - 1);
      made[std::size_t(i)] = {part(c.red), part(c.green), part(c.blue)};
    }
    for (int i = 0; i < grey_count; i++) {
      float const share = float(i) / float(grey_count - 1);
      auto const mix = [&](float from, float to) { return part(from + share * (to - from)); };
      made[std::size_t(steps + i)] = {mix(background.red, ink.red), mix(background.green, ink.green),
                                      mix(background.blue, ink.blue)};
    }
    return made;
  }();
  return colors;
}

int find_nearest(int red, int green, int blue) {
  int best = 0, best_distance = 1 << 30;
  for (int i = 0; i < color_count; i++) {
    GifColorType const c = palette()[std::size_t(i)];
    int const distance =
        (red - c.Red) * (red - c.Red) + (green - c.Green) * (green - c.Green) + (blue - c.Blue) * (blue - c.Blue);
    if (distance >= best_distance) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

}  // namespace

animation::animation(std::string path, int delay_ms)
    : path_(std::move(path)), delay_ms_(delay_ms), nearest_(std::size_t(1) << 3 * nearest_bits, -1) {}

animation::~animation() {
  if (file_ == nullptr) return;
  int ignored = 0;
  (void)EGifCloseFile(static_cast<GifFileType *>(file_), &ignored);
  (void)std::remove(path_.c_str());
}

void animation::fail(int code) const {
  const char *const why = GifErrorString(code);
  throw std::runtime_error("cannot write " + path_ + ": " + (why != nullptr ? why : "giflib gives no reason"));
}

void animation::add(const image &frame) {
  int code = 0;
  if (file_ == nullptr) {
    // Not EGifOpenFileName(), whose files nobody else may read.
    int const descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
    file_ = EGifOpenFileHandle(descriptor, &code);
    if (file_ == nullptr) {
      (void)::close(descriptor);
      fail(code);
    }
    auto *const file = static_cast<GifFileType *>(file_);
    width_ = frame.width();
    height_ = frame.height();
    EGifSetGifVersion(file, true);
    ColorMapObject *const colors = GifMakeMapObject(color_count, palette().data());
    if (colors == nullptr) fail(E_GIF_ERR_NOT_ENOUGH_MEM);
    int const put = EGifPutScreenDesc(file, width_, height_, 8, 0, colors);
    GifFreeMapObject(colors);
    static const unsigned char name[] = "NETSCAPE2.0", for_ever[] = {1, 0, 0};
    if (put == GIF_ERROR || EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE) == GIF_ERROR ||
        EGifPutExtensionBlock(file, 11, name) == GIF_ERROR || EGifPutExtensionBlock(file, 3, for_ever) == GIF_ERROR ||
        EGifPutExtensionTrailer(file) == GIF_ERROR)
      fail(file->Error);
  }
  if (frame.width() != width_ || frame.height() != height_)
    throw std::runtime_error("cannot write " + path_ + ": its frames differ in size");
  auto *const file = static_cast<GifFileType *>(file_);
  GraphicsControlBlock const control{DISPOSE_DO_NOT, false, delay_ms_ / 10, NO_TRANSPARENT_COLOR};
  GifByteType bytes[4];
  std::size_t const size = EGifGCBToExtension(&control, bytes);
  if (EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, int(size), bytes) == GIF_ERROR ||
      EGifPutImageDesc(file, 0, 0, width_, height_, false, nullptr) == GIF_ERROR)
    fail(file->Error);
  std::vector<GifPixelType> line(std::size_t(width_), 0);
  const uint8_t *pixel = frame.pixels().data();
  for (int y = 0; y < height_; y++) {
    for (GifPixelType &target : line) {
      constexpr int dropped = 8 - nearest_bits;
      int &known = nearest_[std::size_t(pixel[0] >> dropped) << 2 * nearest_bits |
                            std::size_t(pixel[1] >> dropped) << nearest_bits | std::size_t(pixel[2] >> dropped)];
      if (known < 0) known = find_nearest(pixel[0], pixel[1], pixel[2]);
      target = GifPixelType(known);
      pixel += 3;
    }
    if (EGifPutLine(file, line.data(), width_) == GIF_ERROR) fail(file->Error);
  }
}

void animation::finish() {
  if (file_ == nullptr) throw std::runtime_error("cannot write " + path_ + ": no frames");
  int code = 0;
  int const closed = EGifCloseFile(static_cast<GifFileType *>(std::exchange(file_, nullptr)), &code);
  if (closed == GIF_ERROR) fail(code);
}

}  // namespace tanada::picture
