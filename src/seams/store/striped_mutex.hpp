// seams/store/striped_mutex.hpp: a shared mutex for data that many threads read all the time and
// few change.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "core/base/mutex.hpp"

namespace tanada::seams {

// Readers of different threads take different stripes, so that they do not share a cache line; a
// writer takes all. Meets the requirements of unique_lock and shared_lock; both are
// released by the thread that took them.
class striped_mutex {
 public:
  void lock() {
    for (auto &entry : stripes_)
      entry.mutex.lock();
  }
  void unlock() {
    for (auto &entry : stripes_)
      entry.mutex.unlock();
  }
  void lock_shared() {
    own_stripe().lock_shared();
  }
  void unlock_shared() {
    own_stripe().unlock_shared();
  }

 private:
  static constexpr size_t count = 16;
  struct alignas(64) stripe {
    shared_mutex mutex;
  };
  static_assert(sizeof(stripe) % 64 == 0);

  shared_mutex &own_stripe() {
    static std::atomic<size_t> next{0};
    thread_local size_t const index = next.fetch_add(1, std::memory_order_relaxed) % count;
    return stripes_[index].mutex;
  }

  std::array<stripe, count> stripes_;
};

}  // namespace tanada::seams
