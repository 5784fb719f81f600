// Who waits in a stager, and how; and the thread that serves while nobody does.
#include <algorithm>

#include "onesided/job/staging_state.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t slice_ns = 100'000'000;   // of the thread's wait
constexpr uint64_t stand_back_ns = 300'000;  // of the thread, since somebody else was at it
constexpr uint64_t seldom_ns = 50'000;  // who looks less often than that leaves it to the thread
constexpr uint64_t last_wait_ns = 1'000'000'000;  // for a queue that is behind, at the end
constexpr uint64_t busy_ns = 1'000'000;  // between two looks at the deadlines of what is under way

// What the device may still be at when nobody is left who knows of it.
void keep_for_ever(std::vector<std::vector<std::byte>> memory) {
  static tanada::mutex mutex;
  static auto &kept = *new std::vector<std::vector<std::byte>>;
  lock_guard const lock{mutex};
  for (auto &each : memory)
    kept.push_back(std::move(each));
}

}  // namespace

void stager::state::leave(held &lock, bool is_idle) noexcept {
  turns_.claim(lock);
  (void)progress(is_idle);
  leave_no_deeds(is_idle);
  attended_ns_ = options_.time->now_ns();
}

void stager::state::attend() noexcept {
  held const lock = turns_.try_enter();
  if (!lock.owns_lock())
    return;
  (void)progress();
  uint64_t const now_ns = options_.time->now_ns();
  if (now_ns - looked_ns_ < seldom_ns)
    attended_ns_ = now_ns;
  else
    leave_no_deeds(true);
  looked_ns_ = now_ns;
}

// Let go of the mutex for a while; then look whether something has happened. The endpoint is ours
// when it returns.
void stager::state::step(held &lock, pacing &pace) {
  attended_ns_ = options_.time->now_ns();
  turns_.pause(lock, pace, options_.attend);
  if (turns_.is_asleep() && pace.sleep_ns != 0)
    turns_.wait_for_others(lock, turns::sleep_ns_last);
  turns_.claim(lock);
  if (!deferred_.empty())
    pace.sleep_ns = std::min(pace.sleep_ns, deferred_look_ns());
  turns_.look_or_sleep(lock, pace, [this] { return progress(); });
}

// Ends in time: sweep() ends every request.
void stager::state::wait(held &lock, waiter &what) {
  (void)progress();
  for (pacing pace; what.left != 0;)
    step(lock, pace);
}

void stager::state::drain(held &lock, staged_context &owner) {
  uint32_t const mine = owner.under_way_.now();
  (void)progress();
  for (pacing pace; !owner.under_way_.is_over(mine);)
    step(lock, pace);
}

bool staged_context::wait_until(uint64_t deadline_ns) {
  if (!under_way_.is_any())
    return true;
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  bool const is_over = inside.wait_until(lock, deadline_ns, [&] { return !under_way_.is_any(); });
  inside.leave(lock);
  return is_over;
}

bool staged_context::wait_for_room(pe_index pe, size_t size, uint64_t deadline_ns) {
  auto &inside = stager_.inside();
  auto lock = inside.look();
  if (inside.has_room(pe, size)) [[likely]]
    return true;
  inside.claim(lock);
  bool const has_room =
      inside.wait_until(lock, deadline_ns, [&] { return inside.has_room(pe, size); });
  inside.leave(lock, false);
  return has_room;
}

void staged_context::abandon() {
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  inside.abandon(*this);
  inside.leave(lock);
}

// Answers find no owner.
void stager::state::abandon(staged_context &owner) noexcept {
  for (auto &of : requests_) {
    if (!of.is_used || of.owner != &owner)
      continue;
    int32_t nothing = 0;
    owner.failure_.compare_exchange_strong(nothing, int32_t(status::timed_out));
    of.owner = nullptr;
    owner.under_way_.end(of.epoch);
  }
}

bool stager::state::has_room(pe_index pe, size_t size) const noexcept {
  auto const &target = peers_[size_t(pe)];
  if (target.is_lost)
    return true;  // which the call will say
  return target.outstanding < window && first_free_ != none &&
         (size <= data_size_max_ || has_slot(pe));
}

void stager::state::start() {
  is_stopped_ = false;
  port::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    serve_thread();
  }};
}

bool stager::state::stop() noexcept {
  if (thread_.joinable()) {
    is_stopped_ = true;
    endpoint_->wake();
    turns_.tell_others();
    thread_.join();
  }
  if (queue_code_ == status::timed_out) {
    catch_up(port::deadline_after(port::monotonic_clock().now_ns(),
                                  std::min(options_.timeout_ns, last_wait_ns)));
    if (queue_code_ == status::timed_out)
      queue_code_ = status::device_lost;  // nobody asks it any more
  }
  if (queue_code_ != status::ok)
    keep_for_ever(std::exchange(withheld_memory_, {}));
  return queue_code_ == status::ok;
}

bool stager::state::is_busy() const noexcept {
  return request_count_ != 0 || services_free_.size() + withheld_services_.size() != slot_count_ ||
         !unsent_.empty() || queue_code_ == status::timed_out || !deferred_.empty();
}

// Stands back while somebody else is at it.
void stager::state::serve_thread() {
  held lock = turns_.lock();
  while (!is_stopped_) {
    bool const is_attended =
        attended_ns_ != 0 && options_.time->now_ns() < attended_ns_ + stand_back_ns;
    if (turns_.is_asleep() || turns_.is_wanted() || (is_attended && deeds_.empty())) {
      turns_.wait_for_others(lock, stand_back_ns);
    } else if (progress() == 0) {
      uint64_t const period_ns = !deferred_.empty() ? deferred_look_ns()
                                 : is_busy()        ? busy_ns
                                                    : slice_ns;
      uint64_t const until_ns = options_.time->now_ns() + period_ns;
      (void)turns_.sleep(lock, [&] { return endpoint_->wait(until_ns); });
      (void)progress();
    }
  }
  leave_no_deeds(true);
}

}  // namespace tanada::pgas
