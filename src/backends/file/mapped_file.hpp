// backends/file/mapped_file.hpp: the pages of a file, mapped for reading.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/base/result.hpp"

namespace tanada::backends {

// Unmapped on destruction. A load past the end of a file that was truncated raises SIGBUS and ends
// the process.
class mapped_file {
 public:
  mapped_file() = default;
  mapped_file(mapped_file &&source) noexcept : bytes_{std::exchange(source.bytes_, {})} {}
  mapped_file &operator=(mapped_file &&source) noexcept {
    std::swap(bytes_, source.bytes_);
    return *this;
  }
  ~mapped_file();

  // Maps the first `size` bytes of the file; `size` must be above 0. The descriptor is not needed
  // afterwards. range: the file is shorter.
  static result<mapped_file> map(int descriptor, size_t size);

  std::span<const std::byte> bytes() const noexcept {
    return bytes_;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tanada::backends
