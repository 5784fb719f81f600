// backends/sockets/uring.hpp: an io_uring, and the buffers provided to it for receiving.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/result.hpp"

namespace tanada::backends {

// Used by one thread at a time.
class uring {
 public:
  static constexpr uint16_t buffer_group = 1;

  uring() = default;
  uring(const uring &) = delete;
  uring &operator=(const uring &) = delete;
  ~uring();

  // not_supported: the kernel is older than 6.0.
  status start(size_t buffer_size);
  bool has_started() const noexcept {
    return has_ring_;
  }
  int descriptor() const noexcept {
    return ring_.ring_fd;
  }  // readable when there are completions

  // Returns a request to fill in. If the queue is full, it is submitted first.
  io_uring_sqe *entry();
  void submit() {
    if (io_uring_sq_ready(&ring_) != 0)
      io_uring_submit(&ring_);
  }
  unsigned peek(std::span<io_uring_cqe *> completions) {
    return io_uring_peek_batch_cqe(&ring_, completions.data(), unsigned(completions.size()));
  }
  void consume() {
    io_uring_cq_advance(&ring_, 1);
  }

  // Cancels the requests with this number, or those that the flags select. When it returns, the
  // kernel no longer has them.
  void cancel_now(uint64_t number, unsigned flags);

  std::byte *buffer_at(unsigned buffer) noexcept {
    return buffers_ + buffer * buffer_size_;
  }
  void return_buffer(unsigned buffer);

 private:
  status provide_buffers();

  io_uring ring_{};
  bool has_ring_ = false;
  io_uring_buf_ring *buffer_ring_ = nullptr;
  std::byte *buffers_ = nullptr;
  size_t buffer_size_ = 0;
};

}  // namespace tanada::backends
