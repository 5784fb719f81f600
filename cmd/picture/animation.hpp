// picture/animation.hpp: images one after the other, as a GIF that repeats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image.hpp"

namespace tanada::picture {

/// Write a GIF, frame by frame, in 256 colours: those of color_of() and greys.
/// Throws std::runtime_error; a file that is not finished is removed.
class animation {
 public:
  /// `delay_ms`: how long a frame stays, in steps of 10.
  animation(std::string path, int delay_ms);

  /// The first frame sets the size.
  void add(const image &frame);
  void finish();

 private:
  int color_index(int pixel);

  std::string const path_;
  int const delay_ms_;
  std::optional<output_file> file_;
  gd_image pixels_;                 // of the frame that is written, with the palette of all
  std::vector<int> color_indexes_;  // by colours of 6 bits a part; -1: not looked for yet
};

}  // namespace tanada::picture
