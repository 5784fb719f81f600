// products/poold/key_ring.hpp: the keys of clients, which a reload may replace while sessions use
// them.
#pragma once

#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/pool/auth.hpp"

namespace tanada::poold {

// With an empty list, no client needs a key. Thread-safe.
class key_ring {
 public:
  using list = std::vector<pool::key>;

  // The current keys. A handshake keeps its list until it is complete.
  std::shared_ptr<const list> keys() const {
    lock_guard const lock{mutex_};
    return keys_;
  }

  void replace(list keys) {
    auto replacement = std::make_shared<const list>(std::move(keys));
    lock_guard const lock{mutex_};
    keys_.swap(replacement);
  }

 private:
  mutable mutex mutex_;
  // Never null.
  std::shared_ptr<const list> keys_ TND_GUARDED_BY(mutex_) = std::make_shared<const list>();
};

}  // namespace tanada::poold
