// onesided/job/bounce.hpp: memory of our own that puts of middle size are sent from, so that their
// source is the caller's again at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::pgas {

// A fixed number of pieces; the memory is asked for when it is first needed. Not thread-safe.
class bounce_pool {
 public:
  static constexpr size_t piece_size = size_t{16} << 10;  // bytes
  static constexpr uint32_t piece_count = 64;
  static constexpr size_t size = piece_size * piece_count;
  static constexpr uint32_t none = ~uint32_t{0};

  // none: all are in use.
  uint32_t take() {
    if (memory_ == nullptr)
      fill();
    if (free_.empty())
      return none;
    uint32_t const piece = free_.back();
    free_.pop_back();
    return piece;
  }
  void give_back(uint32_t piece) {
    TND_ASSERT(piece < piece_count && free_.size() < piece_count);
    free_.push_back(piece);
  }
  std::byte *at(uint32_t piece) const noexcept {
    return memory_.get() + piece * piece_size;
  }
  std::byte *memory() const noexcept {
    return memory_.get();
  }  // null until the first take

 private:
  void fill() {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(piece_count * piece_size);
    for (uint32_t i = piece_count; i > 0; i--)
      free_.push_back(i - 1);
  }

  std::unique_ptr<std::byte[]> memory_;
  std::vector<uint32_t> free_;
};

}  // namespace tanada::pgas
