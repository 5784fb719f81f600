// rpc/post_reader.hpp: the host's side of the queue of requests that need no answer.
#pragma once

#include <tanada/device/detail/rpc/post_queue.hpp>

namespace tanada::rpc {

/// Takes entries in the order of their tickets.
///
/// Thread safety: the caller serializes the calls.
class post_reader {
 public:
  /// `box` is zeroed host memory that kernels can access, and outlives the reader.
  explicit post_reader(post_box &box) : box_{box} {}

  /// The entry of the next ticket, until release(). Null if its kernel has not posted it yet.
  post_entry *front() const noexcept;

  /// The kernels may use the front entry again.
  void release() noexcept;

  /// All tickets below have been taken.
  u64 taken_count() const noexcept {
    return taken_count_;
  }

 private:
  post_box &box_;
  u64 taken_count_ = 0;
};

}  // namespace tanada::rpc
