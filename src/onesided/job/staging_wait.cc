// How threads wait in a stager, and the thread that serves while none does.
#include <algorithm>

#include "onesided/job/staging_state.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

namespace tanada::onesided {
namespace {

constexpr uint64_t slice_ns = 100'000'000;  // longest wait of the thread
// How long the thread pauses after progress by another one.
constexpr uint64_t pause_ns = 300'000;
constexpr uint64_t frequent_interval_ns =
    50'000;  // callers that come less often leave the work to the thread
constexpr uint64_t last_wait_ns = 1'000'000'000;  // for a late queue, at the end
constexpr uint64_t busy_ns = 1'000'000;           // between two checks of deadlines

// Memory that the device may still access when nothing refers to it any more.
void keep_until_exit(std::vector<std::vector<std::byte>> memory) {
  static tanada::mutex mutex;
  static auto &kept_memory = *new std::vector<std::vector<std::byte>>;
  lock_guard const lock{mutex};
  for (auto &block : memory)
    kept_memory.push_back(std::move(block));
}

}  // namespace

void stager::state::leave(guard &lock, bool is_idle) noexcept {
  progress_lock_.claim_endpoint(lock);
  (void)progress(is_idle);
  flush_device_operations(is_idle);
  last_progress_ns_ = options_.time->now_ns();
}

void stager::state::try_progress() noexcept {
  guard const lock = progress_lock_.try_acquire();
  if (!lock.owns_lock())
    return;
  (void)progress();
  uint64_t const now_ns = options_.time->now_ns();
  if (now_ns - last_attempt_ns_ < frequent_interval_ns)
    last_progress_ns_ = now_ns;
  else
    flush_device_operations(true);
  last_attempt_ns_ = now_ns;
}

// Releases the mutex for a while, then polls. On return this thread has the endpoint.
void stager::state::step(guard &lock, backoff_state &backoff) {
  TND_ASSERT(lock.owns_lock());
  last_progress_ns_ = options_.time->now_ns();
  progress_lock_.pause(lock, backoff, options_.make_progress);
  if (progress_lock_.has_sleeper() && backoff.sleep_ns != 0)
    progress_lock_.wait_for_change(lock, progress_lock::sleep_ns_last);
  progress_lock_.claim_endpoint(lock);
  if (!deferred_.empty())
    backoff.sleep_ns = std::min(backoff.sleep_ns, deferred_poll_ns());
  progress_lock_.poll_or_sleep(lock, backoff, [this] { return progress(); });
}

// Ends in time: sweep() ends every request.
void stager::state::wait(guard &lock, blocking_wait &waiter) {
  (void)progress();
  for (backoff_state backoff; waiter.remaining != 0;)
    step(lock, backoff);
}

void stager::state::drain(guard &lock, staged_context &owner) {
  uint32_t const epoch = owner.epochs_.current();
  (void)progress();
  for (backoff_state backoff; !owner.epochs_.is_complete(epoch);)
    step(lock, backoff);
}

bool staged_context::wait_until(uint64_t deadline_ns) {
  if (!epochs_.has_outstanding())
    return true;
  auto &impl = stager_.impl();
  auto lock = impl.enter();
  bool const is_over =
      impl.wait_until(lock, deadline_ns, [&] { return !epochs_.has_outstanding(); });
  impl.leave(lock);
  return is_over;
}

bool staged_context::wait_for_capacity(pe_index pe, size_t size, uint64_t deadline_ns) {
  auto &impl = stager_.impl();
  auto lock = impl.lock_mutex();
  if (impl.has_capacity(pe, size)) [[likely]]
    return true;
  impl.claim_endpoint(lock);
  bool const has_capacity =
      impl.wait_until(lock, deadline_ns, [&] { return impl.has_capacity(pe, size); });
  impl.leave(lock, false);
  return has_capacity;
}

void staged_context::abandon() {
  auto &impl = stager_.impl();
  auto lock = impl.enter();
  impl.abandon(*this);
  impl.leave(lock);
}

// Later replies find no owner.
void stager::state::abandon(staged_context &owner) noexcept {
  TND_ASSERT(progress_lock_.is_held());
  for (auto &entry : requests_) {
    if (!entry.is_used || entry.owner != &owner)
      continue;
    int32_t no_failure = 0;
    owner.failure_.compare_exchange_strong(no_failure, int32_t(status::timed_out));
    entry.owner = nullptr;
    owner.epochs_.end_operation(entry.epoch);
  }
}

bool stager::state::has_capacity(pe_index pe, size_t size) const noexcept {
  TND_ASSERT(progress_lock_.is_held());
  auto const &target = peers_[size_t(pe)];
  if (target.has_failed)
    return true;  // the call then returns the failure
  return target.outstanding_count < window && first_free_ != no_index &&
         (size <= data_size_max_ || has_slot(pe));
}

void stager::state::start() {
  TND_ASSERT(is_stopped_ && !thread_.joinable());
  is_stopped_ = false;
  seams::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    seams::thread_leave_single_core();
    serve_thread();
  }};
}

bool stager::state::stop() noexcept {
  if (thread_.joinable()) {
    is_stopped_ = true;
    endpoint_->wake();
    progress_lock_.wake_waiters();
    thread_.join();
  }
  if (queue_status_ == status::timed_out) {
    try_resume_queue(seams::deadline_after(seams::monotonic_clock().now_ns(),
                                           std::min(options_.timeout_ns, last_wait_ns)));
    if (queue_status_ == status::timed_out)
      queue_status_ = status::device_lost;  // the queue is not used again
  }
  if (queue_status_ != status::ok)
    keep_until_exit(std::exchange(quarantined_memory_, {}));
  return queue_status_ == status::ok;
}

bool stager::state::is_busy() const noexcept {
  return request_count_ != 0 ||
         services_free_.size() + quarantined_services_.size() != slot_count_ || !unsent_.empty() ||
         queue_status_ == status::timed_out || !deferred_.empty();
}

// Pauses while another thread makes progress.
void stager::state::serve_thread() {
  guard lock = progress_lock_.lock_mutex();
  while (!is_stopped_) {
    bool const is_driven =
        last_progress_ns_ != 0 && options_.time->now_ns() < last_progress_ns_ + pause_ns;
    if (progress_lock_.has_sleeper() || progress_lock_.is_contended() ||
        (is_driven && device_operations_.empty())) {
      progress_lock_.wait_for_change(lock, pause_ns);
    } else if (progress() == 0) {
      uint64_t const period_ns = !deferred_.empty() ? deferred_poll_ns()
                                 : is_busy()        ? busy_ns
                                                    : slice_ns;
      uint64_t const until_ns = options_.time->now_ns() + period_ns;
      (void)progress_lock_.sleep(lock, [&] { return endpoint_->wait(until_ns); });
      (void)progress();
    }
  }
  flush_device_operations(true);
}

}  // namespace tanada::onesided
