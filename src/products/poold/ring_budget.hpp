// products/poold/ring_budget.hpp: limits the memory of clients' rings, which the daemon allocates
// in addition to the pool's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "backends/sockets/ring_memory.hpp"
#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"

namespace tanada::poold {

// Counts rings by the key, or the user, of their clients. Thread-safe. Outlives its shares.
class ring_budget {
 public:
  static constexpr uint64_t pool_part = 32;  // of the pool's capacity
  static constexpr size_t count_min = 16;    // also in the smallest pool

  explicit ring_budget(uint64_t capacity)
      : count_max_{
            std::max<size_t>(count_min, capacity / pool_part / backends::ring_memory::size)} {}

  // One client's rings. Returned when destroyed.
  class share {
   public:
    share(ring_budget &budget, std::string owner) : budget_{budget}, owner_{std::move(owner)} {}
    share(const share &) = delete;
    share &operator=(const share &) = delete;
    ~share() {
      budget_.release(owner_);
    }

   private:
    ring_budget &budget_;
    std::string const owner_;
  };

  // Null: the pool has its maximum of rings, or the owner half of that.
  std::unique_ptr<share> acquire(const std::string &owner) {
    lock_guard const lock{mutex_};
    if (count_ >= count_max_)
      return nullptr;
    size_t &owned = owned_[owner];
    if (owned >= (count_max_ + 1) / 2)
      return nullptr;
    owned++;
    count_++;
    return std::make_unique<share>(*this, owner);
  }

  // Bytes in use.
  uint64_t size() const {
    lock_guard const lock{mutex_};
    return count_ * backends::ring_memory::size;
  }
  size_t count_max() const noexcept {
    return count_max_;
  }

 private:
  void release(const std::string &owner) {
    lock_guard const lock{mutex_};
    auto const entry = owned_.find(owner);
    TND_ASSERT(count_ > 0 && entry != owned_.end() && entry->second > 0);
    count_--;
    if (--entry->second == 0)
      owned_.erase(entry);
  }

  size_t const count_max_;
  mutable mutex mutex_;
  size_t count_ TND_GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t> owned_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::poold
