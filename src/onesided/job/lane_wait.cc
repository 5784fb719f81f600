// Who waits in a lane, and how.
#include "onesided/job/lane_state.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t lane_grace_ns =
    1'000'000'000;  // past the deadline of an operation, until the fabric lets go of its memory

}  // namespace

bool lane::state::attend() noexcept {
  if (!needs_attention_ || record_count_.load(std::memory_order_relaxed) == 0)
    return false;
  look();
  return true;
}

void lane::state::look() noexcept {
  held const lock = turns_.try_enter();
  if (lock.owns_lock())
    (void)progress();
}

status lane::state::rest(uint64_t deadline_ns) noexcept {
  held lock = turns_.try_enter();
  if (!lock.owns_lock() || turns_.is_wanted())
    return status::busy;
  status const code = turns_.sleep(lock, [&] { return endpoint_->wait_for_change(deadline_ns); });
  (void)progress();
  return code == status::timed_out ? code : status::ok;
}

// Let go of the mutex for a while; then look whether something has happened.
void lane::state::step(held &lock, pacing &pace) {
  turns_.pause(lock, pace, options_.attend);
  if (turns_.is_asleep()) {
    // Who sleeps dispatches ours, too.
    turns_.wait_for_others(lock, turns::sleep_ns_last);
    if (turns_.is_asleep())
      return;
  }
  turns_.look_or_sleep(lock, pace, [this] { return progress(); });
}

template <class Done>
void lane::state::wait_until(held &lock, remote_context &owner, Done &&is_done) {
  if (is_done())
    return;
  if (!turns_.is_asleep())
    (void)progress();
  uint64_t limit_ns =
      TND_NO_DEADLINE;  // every operation that is under way by now has ended by then
  for (pacing pace; !is_done(); step(lock, pace)) {
    if (pace.count == turns::clock_rounds / 2) {
      limit_ns = port::deadline_after(
          port::deadline_after(options_.time->now_ns(), options_.timeout_ns), lane_grace_ns);
    }
    if (turns::is_time_to_look(pace))
      lose_dead();
    if (turns_.is_late(pace, limit_ns))
      abandon(owner);
  }
}

void lane::state::wait(held &lock, remote_context &owner, waiter &what) {
  wait_until(lock, owner, [&] { return what.is_done; });
}

void lane::state::drain(held &lock, remote_context &owner) {
  wait_until(lock, owner,
             [&, mine = owner.under_way_.now()] { return owner.under_way_.is_over(mine); });
}

}  // namespace tanada::pgas
