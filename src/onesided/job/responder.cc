#include "onesided/job/responder.hpp"

#include <array>

#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t responder_slice_ns = 100'000'000;  // of the thread's wait

// Whom nobody asks anything has nothing to reap; what comes is a peer's that was refused.
void drain(port::fabric_endpoint &endpoint) {
  std::array<port::fabric_completion, 8> done;
  while (endpoint.poll(done) == done.size()) {}
}

}  // namespace

responder::responder(std::unique_ptr<port::fabric_endpoint> endpoint, port::clock &time)
    : endpoint_{std::move(endpoint)},
      time_{time},
      is_alone_{endpoint_->properties().progresses_alone} {}

responder::~responder() {
  stop();
}

void responder::start() {
  if (is_alone_ || thread_.joinable())
    return;
  is_stopped_ = false;
  port::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    serve();
  }};
}

void responder::stop() noexcept {
  if (!thread_.joinable())
    return;
  {
    lock_guard lock{rest_mutex_};
    is_stopped_ = true;
  }
  rest_.notify_all();
  endpoint_->wake();
  thread_.join();
}

void responder::attend() noexcept {
  if (is_alone_) {
    // It needs nobody, and is faster with somebody who looks.
    if (mutex_.try_lock()) {
      drain(*endpoint_);
      mutex_.unlock();
    }
    return;
  }
  uint64_t const now_ns = time_.now_ns();
  uint64_t const before_ns = looked_ns_.exchange(now_ns, std::memory_order_relaxed);
  bool const is_often = now_ns - before_ns < seldom_ns;
  if (is_often)
    attended_ns_.store(now_ns, std::memory_order_relaxed);
  if (mutex_.try_lock()) {
    drain(*endpoint_);
    mutex_.unlock();
  } else if (is_often && is_waiting_.exchange(false)) {
    endpoint_->wake();
  }
}

void responder::serve() {
  while (!is_stopped_) {
    uint64_t const now_ns = time_.now_ns(),
                   idle_since_ns = attended_ns_.load(std::memory_order_relaxed);
    uint64_t const free_ns = idle_since_ns + idle_ns;
    if (idle_since_ns != 0 && now_ns < free_ns) {
      stand_back(free_ns - now_ns);
      continue;
    }
    lock_guard lock{mutex_};
    is_waiting_ = true;
    bool const is_busy = also_ && also_();
    (void)endpoint_->wait(now_ns + (is_busy ? busy_ns : responder_slice_ns));
    is_waiting_ = false;
    drain(*endpoint_);
  }
}

status responder::rest(uint64_t deadline_ns) noexcept {
  if (!mutex_.try_lock())
    return status::busy;
  lock_guard const lock{mutex_, std::adopt_lock};
  status const code = endpoint_->wait_for_change(deadline_ns);
  drain(*endpoint_);
  attended_ns_.store(time_.now_ns(), std::memory_order_relaxed);
  return code == status::timed_out ? code : status::ok;
}

void responder::stir() noexcept {
  if (is_waiting_.load(std::memory_order_relaxed) && is_waiting_.exchange(false))
    endpoint_->wake();
}

void responder::stand_back(uint64_t duration_ns) {
  unique_lock lock{rest_mutex_};
  rest_.wait_for(lock, std::chrono::nanoseconds(duration_ns),
                 [this] { return is_stopped_.load(); });
}

}  // namespace tanada::pgas
