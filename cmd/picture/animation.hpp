// cmd/picture/animation.hpp: writes a sequence of images as a GIF that repeats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image.hpp"

namespace tanada::picture {

/// Writes a GIF, frame by frame, in 256 colours: those of color_of() and greys. Throws
/// std::runtime_error. A file that is not finished is removed.
class animation {
 public:
  /// `delay_ms`: how long a frame is shown, in steps of 10.
  animation(std::string path, int delay_ms);

  /// The first frame sets the size.
  void add(const image &frame);
  void finish();

 private:
  int color_index(int pixel);

  std::string const path_;
  int const delay_ms_;
  std::optional<output_file> file_;
  gd_image pixels_;                 // of the current frame, with the palette of all frames
  std::vector<int> color_indexes_;  // by colours of 6 bits for each part; -1: not computed yet
};

}  // namespace tanada::picture
