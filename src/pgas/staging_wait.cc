// Who waits in a stager, and how; and the thread that serves while nobody does.
#include <algorithm>

#include "pgas/pacing.hpp"
#include "pgas/staging_state.hpp"
#include "port/store/signals_blocked.hpp"
#include "port/thread/thread.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t slice_ns = 100'000'000;      // of the thread's wait
constexpr uint64_t stand_back_ns = 300'000;     // of the thread, since somebody else was at it
constexpr uint64_t busy_ns = 1'000'000;         // between two looks at the deadlines of what is under way

}  // namespace

stager::state::held stager::state::enter() {
  held lock{mutex_, std::try_to_lock};
  if (lock.owns_lock() && !is_asleep_) [[likely]] return lock;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  if (!lock.owns_lock()) lock.lock();
  claim(lock);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

void stager::state::claim(held &lock) {
  if (!is_asleep_) [[likely]] return;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  while (is_asleep_) {
    endpoint_->wake();
    changed_.wait(lock);
  }
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  attended_ns_ = options_.time->now_ns();
}

void stager::state::leave(held &lock, bool is_idle) noexcept {
  claim(lock);
  (void)progress(is_idle);
  attended_ns_ = options_.time->now_ns();
}

void stager::state::attend() noexcept {
  held lock{mutex_, std::try_to_lock};
  if (!lock.owns_lock() || is_asleep_) return;
  (void)progress();
  attended_ns_ = options_.time->now_ns();
}

// Let go of the mutex for a while; then look whether something has happened. The endpoint is ours when it returns.
void stager::state::step(held &lock, pacing &pace) {
  bool const is_fresh = pace.round < (options_.is_crowded ? looks_crowded : looks_roomy);
  attended_ns_ = options_.time->now_ns();
  lock.unlock();
  if (options_.attend) options_.attend();
  if (is_fresh && wanted_.load(std::memory_order_relaxed) == 0) port::spin_pause();
  else if (!is_tired(pace) || wanted_.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
  lock.lock();
  pace.round++;
  pace.count++;
  if (is_asleep_) {
    if (pace.sleep_ns != 0) changed_.wait_for(lock, std::chrono::nanoseconds(sleep_ns_last));
    claim(lock);
  }
  if (progress() != 0) pace = {.count = pace.count};
  else if (pace.sleep_ns != 0 && wanted_.load(std::memory_order_relaxed) == 0) {
    sleep(lock, pace.sleep_ns);
    pace.sleep_ns = std::min(pace.sleep_ns + pace.sleep_ns / 2, sleep_ns_last);
    claim(lock);
  }
}

// Others had their time.
bool stager::state::is_tired(pacing &pace) const {
  if (pace.sleep_ns != 0) return true;
  uint64_t const now_ns = options_.time->now_ns();
  if (pace.yields_since_ns == 0) pace.yields_since_ns = now_ns;
  if (now_ns - pace.yields_since_ns >= (options_.is_crowded ? yield_ns_crowded : yield_ns_roomy)) pace.sleep_ns = sleep_ns_first;
  return pace.sleep_ns != 0;
}

void stager::state::sleep(held &lock, uint64_t duration_ns) {
  is_asleep_ = true;
  lock.unlock();
  (void)endpoint_->wait(options_.time->now_ns() + duration_ns);
  lock.lock();
  is_asleep_ = false;
  changed_.notify_all();
  (void)progress();
}

// Now and then it is worth the look at the clock.
bool stager::state::is_late(const pacing &pace, uint64_t deadline_ns) {
  bool const looks_at_clock = pace.sleep_ns != 0 || pace.count % clock_rounds == clock_rounds - 1;
  return looks_at_clock && options_.time->now_ns() >= deadline_ns;
}

// Ends in time: sweep() ends every request.
void stager::state::wait(held &lock, waiter &what) {
  (void)progress();
  for (pacing pace; what.left != 0;) step(lock, pace);
}

void stager::state::drain(held &lock, staged_context &owner) {
  uint32_t const mine = owner.under_way_.now();
  (void)progress();
  for (pacing pace; !owner.under_way_.is_over(mine);) step(lock, pace);
}

void stager::state::start() {
  is_stopped_ = false;
  port::signals_blocked const blocked;
  thread_ = std::thread{[this] { serve_thread(); }};
}

void stager::state::stop() noexcept {
  if (!thread_.joinable()) return;
  is_stopped_ = true;
  endpoint_->wake();
  changed_.notify_all();
  thread_.join();
}

// Stands back while somebody else is at it.
void stager::state::serve_thread() {
  held lock{mutex_};
  while (!is_stopped_) {
    bool const is_attended = attended_ns_ != 0 && options_.time->now_ns() < attended_ns_ + stand_back_ns;
    if (is_asleep_ || is_attended || wanted_.load(std::memory_order_relaxed) != 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(stand_back_ns));
    } else if (progress() == 0) {
      bool const is_busy = request_count_ != 0 || services_free_.size() != slot_count_ || !unsent_.empty();
      sleep(lock, is_busy ? busy_ns : slice_ns);
    }
  }
}

}  // namespace tanada::pgas
