// seams/os/file_buffer.hpp: memory whose pages the system may write to a folder and take back.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/base/result.hpp"

namespace tanada::seams {

/// Initially zero, in a file without a name, whose space the file system has reserved. Nothing is
/// left of it after the process.
class file_buffer {
 public:
  /// **Returns** no_space, or the system's error, with a message, which is not logged.
  static result<std::unique_ptr<file_buffer>> create(const std::string &folder, size_t size);
  ~file_buffer();
  file_buffer(const file_buffer &) = delete;
  file_buffer &operator=(const file_buffer &) = delete;

  std::byte *data() const noexcept {
    return data_;
  }
  size_t size() const noexcept {
    return size_;
  }

 private:
  file_buffer(std::byte *data, size_t size) : data_{data}, size_{size} {}

  std::byte *const data_;
  size_t const size_;
};

}  // namespace tanada::seams
