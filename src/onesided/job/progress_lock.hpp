// onesided/job/progress_lock.hpp: which thread drives an endpoint that several threads use. The
// others wait: first they spin, then yield, then sleep in the endpoint. Used only by lane_state.hpp
// and staging_state.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"

namespace tanada::onesided {

// How long a thread has waited.
struct backoff_state {
  uint32_t idle_rounds = 0;  // since the last event
  uint32_t total_rounds = 0;
  uint64_t yield_start_ns = 0, sleep_ns = 0;  // 0: not yet

  void reset() noexcept {
    *this = {.total_rounds = total_rounds};
  }
};

// Locking: the mutex protects the owner's state. A thread may use the endpoint while it holds the
// mutex and no thread sleeps in the endpoint. The sleeper has released the mutex, so a thread that
// needs the endpoint wakes it. The mutex is never held during a wait for a peer.
class progress_lock {
 public:
  using guard = unique_lock<mutex>;

  static constexpr uint32_t clock_check_rounds = 64;  // of a wait, between two checks of the clock
  // Lengths of a sleep. Between sleeps this PE serves others, until its serving thread takes over.
  static constexpr uint64_t sleep_ns_first = 50'000, sleep_ns_last = 1'000'000;
  static_assert(sleep_ns_first <= sleep_ns_last);

  // Both outlive it. `is_oversubscribed`: threads compete for processors, and the peer may need
  // this one.
  progress_lock(seams::fabric_endpoint &endpoint, seams::clock &time, bool is_oversubscribed)
      : endpoint_{endpoint}, time_{time}, is_oversubscribed_{is_oversubscribed} {}

  guard acquire();      // the mutex and the endpoint
  guard try_acquire();  // without the mutex if another thread uses the endpoint
  // Another thread may use the endpoint.
  guard lock_mutex() {
    return guard{mutex_};
  }
  void claim_endpoint(guard &lock) {  // also takes the endpoint
    TND_ASSERT(lock.owns_lock());
    if (has_sleeper_) [[unlikely]]
      wake_sleeper(lock);
  }

  // Whether the calling thread holds the mutex.
  bool is_held() const noexcept {
    return mutex_.is_held();
  }
  bool has_sleeper() const noexcept {
    TND_ASSERT(is_held());
    return has_sleeper_;
  }
  bool is_contended() const noexcept {
    return waiter_count_.load(std::memory_order_relaxed) != 0;
  }

  // One step of a wait without events. Releases the mutex for make_progress() (may be null), and
  // for as long as the backoff requires. Another thread may then use the endpoint.
  void pause(guard &lock, backoff_state &backoff, const std::function<void()> &make_progress);

  // The next step, with the endpoint. progress() returns the number of events. Without any, this
  // sleeps once the backoff requires it.
  template <class Progress>
  void poll_or_sleep(guard &lock, backoff_state &backoff, Progress &&progress) {
    TND_ASSERT(lock.owns_lock() && !has_sleeper_);
    if (progress() != 0)
      return backoff.reset();
    if (backoff.sleep_ns == 0 || is_contended())
      return;
    (void)sleep(lock, [&] { return endpoint_.wait(time_.now_ns() + backoff.sleep_ns); });
    backoff.sleep_ns = std::min(backoff.sleep_ns + backoff.sleep_ns / 2, sleep_ns_last);
    (void)progress();
  }

  // Releases the mutex for wait(), which is a wait of the endpoint. The caller then has the
  // endpoint.
  template <class Wait>
  status sleep(guard &lock, Wait &&wait) {
    TND_ASSERT(lock.owns_lock() && !has_sleeper_);
    has_sleeper_ = true;
    lock.unlock();
    status const code = wait();
    lock.lock();
    has_sleeper_ = false;
    changed_.notify_all();
    return code;
  }

  // Waits until the sleeper is awake, wake_waiters() is called, or the duration has passed.
  void wait_for_change(guard &lock, uint64_t duration_ns) {
    TND_ASSERT(lock.owns_lock());
    changed_.wait_for(lock, std::chrono::nanoseconds(duration_ns));
  }
  void wake_waiters() noexcept {
    changed_.notify_all();
  }

  // Whether to check for other reasons to end a wait, the clock first.
  static bool is_check_due(const backoff_state &backoff) noexcept {
    return backoff.sleep_ns != 0 ||
           backoff.total_rounds % clock_check_rounds == clock_check_rounds - 1;
  }
  bool is_past(const backoff_state &backoff, uint64_t deadline_ns) const {
    return is_check_due(backoff) && time_.now_ns() >= deadline_ns;
  }

 private:
  void wake_sleeper(guard &lock);
  bool has_yielded_enough(backoff_state &backoff) const;

  seams::fabric_endpoint &endpoint_;
  seams::clock &time_;
  bool const is_oversubscribed_;
  mutex mutex_;
  condition_variable changed_;  // the sleeper is awake, and may have made progress
  bool has_sleeper_ = false;
  std::atomic<uint32_t> waiter_count_{0};  // threads that wait for the mutex or the endpoint
};

}  // namespace tanada::onesided
