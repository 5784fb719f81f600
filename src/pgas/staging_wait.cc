// Who waits in a stager, and how; and the thread that serves while nobody does.
#include "pgas/staging_state.hpp"
#include "port/store/signals_blocked.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t slice_ns = 100'000'000;      // of the thread's wait
constexpr uint64_t stand_back_ns = 300'000;     // of the thread, since somebody else was at it
constexpr uint64_t busy_ns = 1'000'000;         // between two looks at the deadlines of what is under way

}  // namespace

void stager::state::leave(held &lock, bool is_idle) noexcept {
  turns_.claim(lock);
  (void)progress(is_idle);
  attended_ns_ = options_.time->now_ns();
}

void stager::state::attend() noexcept {
  held const lock = turns_.try_enter();
  if (!lock.owns_lock()) return;
  (void)progress();
  attended_ns_ = options_.time->now_ns();
}

// Let go of the mutex for a while; then look whether something has happened. The endpoint is ours when it returns.
void stager::state::step(held &lock, pacing &pace) {
  attended_ns_ = options_.time->now_ns();
  turns_.pause(lock, pace, options_.attend);
  if (turns_.is_asleep() && pace.sleep_ns != 0) turns_.wait_for_others(lock, turns::sleep_ns_last);
  turns_.claim(lock);
  turns_.look_or_sleep(lock, pace, [this] { return progress(); });
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
  turns_.tell_others();
  thread_.join();
}

// Stands back while somebody else is at it.
void stager::state::serve_thread() {
  held lock = turns_.lock();
  while (!is_stopped_) {
    bool const is_attended = attended_ns_ != 0 && options_.time->now_ns() < attended_ns_ + stand_back_ns;
    if (turns_.is_asleep() || is_attended || turns_.is_wanted()) {
      turns_.wait_for_others(lock, stand_back_ns);
    } else if (progress() == 0) {
      bool const is_busy = request_count_ != 0 || services_free_.size() != slot_count_ || !unsent_.empty();
      uint64_t const until_ns = options_.time->now_ns() + (is_busy ? busy_ns : slice_ns);
      (void)turns_.sleep(lock, [&] { return endpoint_->wait(until_ns); });
      (void)progress();
    }
  }
}

}  // namespace tanada::pgas
