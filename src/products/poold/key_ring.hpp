// products/poold/key_ring.hpp: the keys of clients, which a reload replaces while sessions read
// them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "products/pool/auth.hpp"

namespace tanada::poold {

// An empty list lets everybody in. Thread-safe.
class key_ring {
 public:
  using list = std::vector<pool::key>;

  // The keys as they are now; a handshake keeps its list until it is over.
  std::shared_ptr<const list> keys() const {
    std::lock_guard const lock{mutex_};
    return keys_;
  }

  void replace(list keys) {
    auto replacement = std::make_shared<const list>(std::move(keys));
    std::lock_guard const lock{mutex_};
    keys_.swap(replacement);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const list> keys_ = std::make_shared<const list>();
};

}  // namespace tanada::poold
