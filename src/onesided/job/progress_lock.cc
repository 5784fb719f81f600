// Which thread drives an endpoint, and the backoff of those that wait.
#include "onesided/job/progress_lock.hpp"

#include "seams/os/thread.hpp"

namespace tanada::onesided {
namespace {

constexpr uint32_t spin_rounds_default = 32, spin_rounds_oversubscribed = 2;
constexpr uint64_t lock_yield_ns_default = 2'000'000, lock_yield_ns_oversubscribed = 20'000;

}  // namespace

progress_lock::guard progress_lock::acquire() {
  guard lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !has_sleeper_) [[likely]]
    return lock;
  waiter_count_.fetch_add(1, std::memory_order_relaxed);
  if (!lock.owns_lock())
    lock.lock();
  claim_endpoint(lock);
  waiter_count_.fetch_sub(1, std::memory_order_relaxed);
  TND_ASSERT(lock.owns_lock() && !has_sleeper_);
  return lock;
}

progress_lock::guard progress_lock::try_acquire() {
  guard lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && has_sleeper_)
    lock.unlock();
  return lock;
}

void progress_lock::wake_sleeper(guard &lock) {
  TND_ASSERT(lock.owns_lock());
  waiter_count_.fetch_add(1, std::memory_order_relaxed);
  while (has_sleeper_) {
    endpoint_.wake();
    changed_.wait(lock);
  }
  waiter_count_.fetch_sub(1, std::memory_order_relaxed);
}

void progress_lock::pause(guard &lock,
                          backoff_state &backoff,
                          const std::function<void()> &make_progress) {
  TND_ASSERT(lock.owns_lock());
  bool const is_fresh =
      backoff.idle_rounds < (is_oversubscribed_ ? spin_rounds_oversubscribed : spin_rounds_default);
  lock.unlock();
  if (make_progress)
    make_progress();
  if (is_fresh && !is_contended())
    seams::spin_pause();
  else if (!has_yielded_enough(backoff) || is_contended())
    time_.yield();
  lock.lock();
  backoff.idle_rounds++;
  backoff.total_rounds++;
}

// Whether other threads have had enough time.
bool progress_lock::has_yielded_enough(backoff_state &backoff) const {
  if (backoff.sleep_ns != 0)
    return true;
  uint64_t const now_ns = time_.now_ns();
  if (backoff.yield_start_ns == 0)
    backoff.yield_start_ns = now_ns;
  if (now_ns - backoff.yield_start_ns >=
      (is_oversubscribed_ ? lock_yield_ns_oversubscribed : lock_yield_ns_default))
    backoff.sleep_ns = sleep_ns_first;
  return backoff.sleep_ns != 0;
}

}  // namespace tanada::onesided
