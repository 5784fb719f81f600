// A thread that sleeps in an endpoint for those that sleep on an alarm.
#include "onesided/job/access_watcher.hpp"

#include <chrono>
#include <utility>

#include "core/base/assert.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::onesided {

access_watcher::access_watcher(callbacks chosen, seams::clock &time)
    : callbacks_{std::move(chosen)}, time_{time} {
  TND_ASSERT(callbacks_.wait_for_access && callbacks_.wake);
  seams::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    run();
  }};
}

access_watcher::~access_watcher() {
  stop();
}

void access_watcher::stop() noexcept {
  if (!thread_.joinable())
    return;
  {
    lock_guard const lock{mutex_};
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void access_watcher::arm() {
  lock_guard const lock{mutex_};
  is_armed_ = true;
  if (is_parked_)
    changed_.notify_all();
}

void access_watcher::run() {
  unique_lock lock{mutex_};
  while (!is_stopped_) {
    is_parked_ = true;
    changed_.wait(lock, [this] { return is_armed_ || is_stopped_; });
    is_parked_ = false;
    if (!is_stopped_)
      watch(lock);
  }
}

// An endpoint that cannot detect accesses returns from time to time: a sleep that lasted for the
// whole slice found none.
void access_watcher::watch(unique_lock<mutex> &lock) {
  TND_ASSERT(lock.owns_lock() && is_armed_);
  is_armed_ = false;
  lock.unlock();
  uint64_t const deadline_ns = time_.now_ns() + slice_ns;
  status const code = callbacks_.wait_for_access(deadline_ns);
  bool const is_accessed = code == status::ok && time_.now_ns() < deadline_ns;
  if (is_accessed)
    access_count_.fetch_add(1);
  lock.lock();
  if (code == status::busy) {
    changed_.wait_for(
        lock, std::chrono::nanoseconds(busy_pause_ns), [this] { return is_stopped_; });
  }
  if (!is_accessed && code != status::busy)
    return;
  lock.unlock();
  callbacks_.wake();
  lock.lock();
}

}  // namespace tanada::onesided
