// Who waits in a lane, and how.
#include <thread>

#include "pgas/lane_state.hpp"
#include "pgas/pacing.hpp"
#include "port/thread/thread.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t grace_ns = 1'000'000'000;     // past the deadline of an operation, until the fabric lets go of its memory

}  // namespace

lane::state::held lane::state::enter() {
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !is_asleep_) [[likely]] return lock;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  if (!lock.owns_lock()) lock.lock();
  claim(lock);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

void lane::state::claim(held &lock) {
  if (!is_asleep_) [[likely]] return;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  while (is_asleep_) {
    endpoint_->wake();
    changed_.wait(lock);
  }
  wanted_.fetch_sub(1, std::memory_order_relaxed);
}

bool lane::state::attend() noexcept {
  if (!needs_attention_ || record_count_.load(std::memory_order_relaxed) == 0) return false;
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !is_asleep_) (void)progress();
  return true;
}

void lane::state::look() noexcept {
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !is_asleep_) (void)progress();
}

status lane::state::rest(uint64_t deadline_ns) noexcept {
  held lock{mutex_, std::try_to_lock};
  if (!lock.owns_lock() || is_asleep_ || wanted_.load(std::memory_order_relaxed) != 0) return status::busy;
  is_asleep_ = true;
  lock.unlock();
  status const code = endpoint_->wait_for_change(deadline_ns);
  lock.lock();
  is_asleep_ = false;
  changed_.notify_all();
  (void)progress();
  return code == status::timed_out ? code : status::ok;
}

// Let go of the mutex for a while; then look whether something has happened.
void lane::state::step(held &lock, pacing &pace) {
  bool const is_fresh = pace.round < (options_.is_crowded ? looks_crowded : looks_roomy);
  lock.unlock();
  if (options_.attend) options_.attend();
  if (is_fresh && wanted_.load(std::memory_order_relaxed) == 0) port::spin_pause();
  else if (!is_tired(pace) || wanted_.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
  lock.lock();
  pace.round++;
  pace.count++;
  if (is_asleep_) {
    // Who sleeps dispatches ours, too.
    changed_.wait_for(lock, std::chrono::nanoseconds(sleep_ns_last));
    if (is_asleep_) return;
  }
  if (progress() != 0) pace = {.count = pace.count};
  else if (pace.sleep_ns != 0 && wanted_.load(std::memory_order_relaxed) == 0) sleep(lock, pace);
}

// Others had their time.
bool lane::state::is_tired(pacing &pace) const {
  if (pace.sleep_ns != 0) return true;
  uint64_t const now_ns = options_.time->now_ns();
  if (pace.yields_since_ns == 0) pace.yields_since_ns = now_ns;
  if (now_ns - pace.yields_since_ns >= (options_.is_crowded ? yield_ns_crowded : yield_ns_roomy)) pace.sleep_ns = sleep_ns_first;
  return pace.sleep_ns != 0;
}

void lane::state::sleep(held &lock, pacing &pace) {
  is_asleep_ = true;
  lock.unlock();
  (void)endpoint_->wait(options_.time->now_ns() + pace.sleep_ns);
  pace.sleep_ns = std::min(pace.sleep_ns + pace.sleep_ns / 2, sleep_ns_last);
  lock.lock();
  is_asleep_ = false;
  changed_.notify_all();
  (void)progress();
}

// Now and then it is worth the look at the clock.
bool lane::state::is_late(const pacing &pace, uint64_t deadline_ns) {
  bool const looks_at_clock = pace.sleep_ns != 0 || pace.count % clock_rounds == clock_rounds - 1;
  return looks_at_clock && options_.time->now_ns() >= deadline_ns;
}

template <class Done>
void lane::state::wait_until(held &lock, remote_context &owner, Done &&is_done) {
  if (is_done()) return;
  if (!is_asleep_) (void)progress();
  uint64_t limit_ns = TND_NO_DEADLINE;  // every operation that is under way by now has ended by then
  for (pacing pace; !is_done(); step(lock, pace)) {
    if (pace.count == clock_rounds / 2) {
      limit_ns = port::deadline_after(port::deadline_after(options_.time->now_ns(), options_.timeout_ns), grace_ns);
    }
    if (is_late(pace, limit_ns)) abandon(owner);
  }
}

void lane::state::wait(held &lock, remote_context &owner, waiter &what) {
  wait_until(lock, owner, [&] { return what.is_done; });
}

void lane::state::drain(held &lock, remote_context &owner) {
  wait_until(lock, owner, [&, mine = owner.under_way_.now()] { return owner.under_way_.is_over(mine); });
}

}  // namespace tanada::pgas
