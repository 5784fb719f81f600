// Serves remote PEs, in calls of waiting threads or by a thread of its own.
#include "onesided/job/responder.hpp"

#include <array>

#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

namespace tanada::onesided {
namespace {

constexpr uint64_t responder_slice_ns = 100'000'000;  // longest wait of the thread

// This endpoint posts no operations. Completions that arrive anyway belong to refused requests of
// peers.
void drain(seams::fabric_endpoint &endpoint) {
  std::array<seams::fabric_completion, 8> done;
  while (endpoint.poll(done) == done.size()) {}
}

}  // namespace

responder::responder(std::unique_ptr<seams::fabric_endpoint> endpoint, seams::clock &time)
    : endpoint_{std::move(endpoint)},
      time_{time},
      has_auto_progress_{endpoint_->properties().has_auto_progress} {}

responder::~responder() {
  stop();
}

void responder::start() {
  if (has_auto_progress_ || thread_.joinable())
    return;
  TND_ASSERT(is_stopped_);
  is_stopped_ = false;
  seams::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    seams::thread_leave_single_core();
    serve();
  }};
}

void responder::stop() noexcept {
  if (!thread_.joinable())
    return;
  {
    lock_guard lock{pause_mutex_};
    is_stopped_ = true;
  }
  pause_changed_.notify_all();
  endpoint_->wake();
  thread_.join();
}

void responder::progress() noexcept {
  if (has_auto_progress_) {
    // The fabric needs no progress calls, but serves faster with them.
    if (mutex_.try_lock()) {
      drain(*endpoint_);
      mutex_.unlock();
    }
    return;
  }
  uint64_t const now_ns = time_.now_ns();
  uint64_t const previous_ns = last_attempt_ns_.exchange(now_ns, std::memory_order_relaxed);
  bool const is_frequent = now_ns - previous_ns < frequent_interval_ns;
  if (is_frequent)
    last_progress_ns_.store(now_ns, std::memory_order_relaxed);
  if (mutex_.try_lock()) {
    drain(*endpoint_);
    mutex_.unlock();
  } else if (is_frequent && is_waiting_.exchange(false)) {
    endpoint_->wake();
  }
}

void responder::serve() {
  while (!is_stopped_) {
    uint64_t const now_ns = time_.now_ns(),
                   idle_since_ns = last_progress_ns_.load(std::memory_order_relaxed);
    uint64_t const free_ns = idle_since_ns + idle_ns;
    if (idle_since_ns != 0 && now_ns < free_ns) {
      pause(free_ns - now_ns);
      continue;
    }
    lock_guard lock{mutex_};
    is_waiting_ = true;
    bool const is_busy = extra_progress_ && extra_progress_();
    (void)endpoint_->wait(now_ns + (is_busy ? busy_ns : responder_slice_ns));
    is_waiting_ = false;
    drain(*endpoint_);
  }
}

status responder::wait_for_access(uint64_t deadline_ns) noexcept {
  if (!mutex_.try_lock())
    return status::busy;
  lock_guard const lock{mutex_, std::adopt_lock};
  TND_ASSERT(mutex_.is_held());
  status const code = endpoint_->wait_for_change(deadline_ns);
  drain(*endpoint_);
  last_progress_ns_.store(time_.now_ns(), std::memory_order_relaxed);
  return code == status::timed_out ? code : status::ok;
}

void responder::wake_thread() noexcept {
  if (is_waiting_.load(std::memory_order_relaxed) && is_waiting_.exchange(false))
    endpoint_->wake();
}

void responder::pause(uint64_t duration_ns) {
  unique_lock lock{pause_mutex_};
  pause_changed_.wait_for(
      lock, std::chrono::nanoseconds(duration_ns), [this] { return is_stopped_.load(); });
}

}  // namespace tanada::onesided
