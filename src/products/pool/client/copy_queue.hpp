// products/pool/client/copy_queue.hpp: distributes the pieces of a transfer between device memory
// and the pool to threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/pool/client/device_mapping.hpp"

namespace tanada::pool {

// A range of a mapping, and a range of device memory of the same size.
struct device_part {
  device_mapping *mapping;
  uint64_t offset;  // in the mapping
  std::byte *device;
  uint64_t size;
};

// Pieces, each within one part of its mapping. Threads that register memory take whole pieces from
// the front. Threads that stage bytes take them from the back, in steps. So both groups end at the
// same time, whichever is faster.
//
// Thread-safe.
class copy_queue {
 public:
  explicit copy_queue(std::vector<device_part> pieces) : pieces_{std::move(pieces)} {}

  // False: the queue is empty.
  bool take_front(device_part &piece) {
    lock_guard const lock{mutex_};
    TND_ASSERT(front_ <= pieces_.size());
    if (front_ == pieces_.size())
      return false;
    piece = pieces_[front_++];
    return true;
  }

  // Takes at most `size_max` bytes. False: no rest is worth staging.
  bool take_back(device_part &piece, uint64_t size_max) {
    lock_guard const lock{mutex_};
    TND_ASSERT(front_ <= pieces_.size());
    if (front_ == pieces_.size())
      return false;
    device_part &last = pieces_.back();
    if (last.mapping->is_registered(last.offset))
      return false;
    uint64_t const size = std::min(last.size, size_max);
    last.size -= size;
    piece = {last.mapping, last.offset + last.size, last.device + last.size, size};
    if (last.size == 0)
      pieces_.pop_back();
    return true;
  }

 private:
  mutex mutex_;
  std::vector<device_part> pieces_ TND_GUARDED_BY(mutex_);
  size_t front_ TND_GUARDED_BY(mutex_) = 0;
};

}  // namespace tanada::pool
