// picture/animation.hpp: images one after the other, as a GIF that repeats.
#pragma once

#include <string>
#include <vector>

#include "image.hpp"

namespace tanada::picture {

/// Write a GIF, frame by frame, in 256 colours: those of color_of() and greys. Throws std::runtime_error; what was begun
/// and not finished is removed.
class animation {
 public:
  /// `delay_ms`: how long a frame stays, in steps of 10.
  animation(std::string path, int delay_ms);
  animation(const animation &) = delete;
  animation &operator=(const animation &) = delete;
  ~animation();

  /// The first frame sets the size.
  void add(const image &frame);
  void finish();

 private:
  [[noreturn]] void fail(int code) const;

  std::string path_;
  int delay_ms_, width_ = 0, height_ = 0;
  void *file_ = nullptr;  // giflib's
  std::vector<int> nearest_;  // of a colour of 6 bits a part: where it lies in the palette, -1 not looked for yet
};

}  // namespace tanada::picture
