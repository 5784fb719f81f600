// How threads wait for operations of a lane.
#include "onesided/job/lane_state.hpp"

namespace tanada::onesided {
namespace {

// Past the deadline of an operation, until the fabric must have released its memory.
constexpr uint64_t lane_grace_ns = 1'000'000'000;

}  // namespace

bool lane::state::progress_outstanding() noexcept {
  if (!needs_progress_ || record_count_.load(std::memory_order_relaxed) == 0)
    return false;
  try_progress();
  return true;
}

void lane::state::try_progress() noexcept {
  guard const lock = progress_lock_.try_acquire();
  if (lock.owns_lock())
    (void)progress();
}

status lane::state::wait_for_access(uint64_t deadline_ns) noexcept {
  guard lock = progress_lock_.try_acquire();
  if (!lock.owns_lock() || progress_lock_.is_contended())
    return status::busy;
  status const code =
      progress_lock_.sleep(lock, [&] { return endpoint_->wait_for_change(deadline_ns); });
  (void)progress();
  return code == status::timed_out ? code : status::ok;
}

// Releases the mutex for a while, then polls.
void lane::state::step(guard &lock, backoff_state &backoff) {
  progress_lock_.pause(lock, backoff, options_.make_progress);
  if (progress_lock_.has_sleeper()) {
    // The sleeper also dispatches completions of this thread's operations.
    progress_lock_.wait_for_change(lock, progress_lock::sleep_ns_last);
    if (progress_lock_.has_sleeper())
      return;
  }
  progress_lock_.poll_or_sleep(lock, backoff, [this] { return progress(); });
}

template <class Done>
void lane::state::wait_until(guard &lock, remote_context &owner, Done &&is_done) {
  TND_ASSERT(lock.owns_lock());
  if (is_done())
    return;
  if (!progress_lock_.has_sleeper())
    (void)progress();
  // Every operation that is outstanding by now has ended by then.
  uint64_t limit_ns = TND_NO_DEADLINE;
  for (backoff_state backoff; !is_done(); step(lock, backoff)) {
    if (backoff.total_rounds == progress_lock::clock_check_rounds / 2) {
      limit_ns = seams::deadline_after(
          seams::deadline_after(options_.time->now_ns(), options_.timeout_ns), lane_grace_ns);
    }
    if (progress_lock::is_check_due(backoff))
      fail_dead_peers();
    if (progress_lock_.is_past(backoff, limit_ns))
      abandon(owner);
  }
}

void lane::state::wait(guard &lock, remote_context &owner, blocking_wait &waiter) {
  wait_until(lock, owner, [&] { return waiter.is_done; });
}

void lane::state::drain(guard &lock, remote_context &owner) {
  wait_until(lock, owner, [&, epoch = owner.epochs_.current()] {
    return owner.epochs_.is_complete(epoch);
  });
}

}  // namespace tanada::onesided
