// backends/file/io_vectors.hpp: the buffers of an operation as iovecs for system calls.
#pragma once

#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/store/store.hpp"

namespace tanada::backends {

// The part of an operation's buffers that has not been moved yet. A system call takes at most
// IOV_MAX iovecs and may move less than requested, so callers loop: next(), call, advance(), until
// done().
class io_vectors {
 public:
  io_vectors() = default;
  explicit io_vectors(std::span<const seams::store_buffer> buffers) {
    vectors_.reserve(buffers.size());
    for (const auto &buffer : buffers) {
      if (buffer.size != 0)
        vectors_.push_back({buffer.addr, buffer.size});
    }
  }

  bool done() const noexcept {
    return first_ == vectors_.size();
  }
  iovec *next() noexcept {
    return vectors_.data() + first_;
  }
  unsigned next_count() const noexcept {
    return unsigned(std::min<size_t>(vectors_.size() - first_, IOV_MAX));
  }

  void advance(size_t size) noexcept {
    while (size > 0) {
      TND_ASSERT(!done());
      auto &vector = vectors_[first_];
      size_t const part = std::min(size, vector.iov_len);
      vector.iov_base = static_cast<std::byte *>(vector.iov_base) + part;
      vector.iov_len -= part;
      size -= part;
      if (vector.iov_len == 0)
        first_++;
    }
  }

 private:
  std::vector<iovec> vectors_;
  size_t first_ = 0;
};

}  // namespace tanada::backends
