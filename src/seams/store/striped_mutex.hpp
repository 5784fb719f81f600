// seams/store/striped_mutex.hpp: a shared mutex for what many threads read all the time and few
// change.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "core/base/mutex.hpp"

namespace tanada::port {

// Readers of different threads take different stripes, so that they do not share a cache line; a
// writer takes all. Meets the requirements of unique_lock and shared_lock; both are
// released by the thread that took them.
class striped_mutex {
 public:
  void lock() {
    for (auto &each : stripes_)
      each.mutex.lock();
  }
  void unlock() {
    for (auto &each : stripes_)
      each.mutex.unlock();
  }
  void lock_shared() {
    mine().lock_shared();
  }
  void unlock_shared() {
    mine().unlock_shared();
  }

 private:
  static constexpr size_t count = 16;
  struct alignas(64) stripe {
    shared_mutex mutex;
  };

  shared_mutex &mine() {
    static std::atomic<size_t> next{0};
    thread_local size_t const index = next.fetch_add(1, std::memory_order_relaxed) % count;
    return stripes_[index].mutex;
  }

  std::array<stripe, count> stripes_;
};

}  // namespace tanada::port
