// backends/sockets/uring.hpp: an io_uring, and the buffers it is lent to receive into.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/result.hpp"

namespace tanada::port {

// One thread at a time.
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

  // A request to fill in. A full queue goes to the kernel first.
  io_uring_sqe *entry();
  void submit() {
    if (io_uring_sq_ready(&ring_) != 0)
      io_uring_submit(&ring_);
  }
  unsigned peek(std::span<io_uring_cqe *> into) {
    return io_uring_peek_batch_cqe(&ring_, into.data(), unsigned(into.size()));
  }
  void seen() {
    io_uring_cq_advance(&ring_, 1);
  }

  // Requests with this number, or as the flags say. When it returns the kernel no longer has them.
  void cancel_now(uint64_t number, unsigned flags);

  std::byte *buffer_at(unsigned buffer) noexcept {
    return buffers_ + buffer * buffer_size_;
  }
  void lend(unsigned buffer);

 private:
  status lend_all();

  io_uring ring_{};
  bool has_ring_ = false;
  io_uring_buf_ring *lent_ = nullptr;
  std::byte *buffers_ = nullptr;
  size_t buffer_size_ = 0;
};

}  // namespace tanada::port
