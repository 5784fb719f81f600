#include "onesided/job/turns.hpp"

#include <thread>

#include "seams/os/thread.hpp"

namespace tanada::pgas {
namespace {

constexpr uint32_t turn_looks_roomy = 32, turn_looks_crowded = 2;
constexpr uint64_t turn_yield_ns_roomy = 2'000'000, turn_yield_ns_crowded = 20'000;

}  // namespace

turns::held turns::enter() {
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !is_asleep_) [[likely]]
    return lock;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  if (!lock.owns_lock())
    lock.lock();
  claim(lock);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

turns::held turns::try_enter() {
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && is_asleep_)
    lock.unlock();
  return lock;
}

void turns::wake_sleeper(held &lock) {
  wanted_.fetch_add(1, std::memory_order_relaxed);
  while (is_asleep_) {
    endpoint_.wake();
    changed_.wait(lock);
  }
  wanted_.fetch_sub(1, std::memory_order_relaxed);
}

void turns::pause(held &lock, pacing &pace, const std::function<void()> &attend) {
  bool const is_fresh = pace.round < (is_crowded_ ? turn_looks_crowded : turn_looks_roomy);
  lock.unlock();
  if (attend)
    attend();
  if (is_fresh && !is_wanted())
    port::spin_pause();
  else if (!is_tired(pace) || is_wanted())
    std::this_thread::yield();
  lock.lock();
  pace.round++;
  pace.count++;
}

// Others had their time.
bool turns::is_tired(pacing &pace) const {
  if (pace.sleep_ns != 0)
    return true;
  uint64_t const now_ns = time_.now_ns();
  if (pace.yields_since_ns == 0)
    pace.yields_since_ns = now_ns;
  if (now_ns - pace.yields_since_ns >= (is_crowded_ ? turn_yield_ns_crowded : turn_yield_ns_roomy))
    pace.sleep_ns = sleep_ns_first;
  return pace.sleep_ns != 0;
}

}  // namespace tanada::pgas
