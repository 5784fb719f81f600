// backends/file/mapped_file.hpp: the pages of a file, mapped to be read.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/base/result.hpp"

namespace tanada::port {

// Unmapped with the object. Loads past the end of a file that somebody cuts end the process
// (SIGBUS).
class mapped_file {
 public:
  mapped_file() = default;
  mapped_file(mapped_file &&other) noexcept : bytes_{std::exchange(other.bytes_, {})} {}
  mapped_file &operator=(mapped_file &&other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~mapped_file();

  // The first `size` bytes, above 0, of the file; the descriptor is not needed afterwards. range
  // when it has fewer now.
  static result<mapped_file> map(int descriptor, size_t size);

  std::span<const std::byte> bytes() const noexcept {
    return bytes_;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tanada::port
