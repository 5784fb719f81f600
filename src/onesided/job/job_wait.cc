// Waits of a job: they poll, yield, then sleep, and detect failed PEs.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"
#include "seams/os/yield.hpp"

namespace tanada::onesided {
namespace {

// How long a wait yields before it sleeps. It is short where PEs compete for processors.
constexpr uint64_t yield_ns_default = 2'000'000, yield_ns_oversubscribed = 20'000;
constexpr uint64_t sleep_ns_first = 20'000, sleep_ns_both = 200'000, sleep_ns_last = 1'000'000;

}  // namespace

void job::progress() const {
  if (!serves_remote_)
    return;
  if (impl_->serving_lane != nullptr)
    impl_->serving_lane->try_progress();
  else if (impl_->serving_responder)
    impl_->serving_responder->progress();
  if (impl_->staging && impl_->is_staging_due())
    impl_->staging->try_progress();
  (void)impl_->progress_lanes();
}

bool job::impl::progress_lanes() noexcept {
  bool is_busy = false;
  for (auto const &entry : active_lanes) {
    auto *const active_lane = entry.load(std::memory_order_acquire);
    if (active_lane == nullptr)
      break;
    if (active_lane->progress_outstanding())
      is_busy = true;
  }
  return is_busy;
}

status job::wait_long(const std::function<bool()> &ready,
                      std::span<const std::byte> memory,
                      uint64_t deadline_ns,
                      uint64_t poll_interval_ns) const {
  TND_ASSERT(ready != nullptr);
  uint64_t last_event_ns = time_->now_ns();  // the last event
  // A caller that polls so rarely delays no other, and sleeps at once.
  bool const sleeps_at_once = poll_interval_ns > sleep_ns_last;
  uint64_t const yield_ns = sleeps_at_once       ? 0
                            : is_oversubscribed_ ? yield_ns_oversubscribed
                                                 : yield_ns_default;
  uint64_t sleep_ns =
      has_both_wake_sources_ ? sleep_ns_first : std::max(sleep_ns_last, poll_interval_ns);
  seams::alarm_range watched;
  if (!memory.empty()) {
    if (auto const location = map_.locate(memory.data(), memory.size(), me());
        location.segment_ptr != nullptr)
      watched = map_.watched_range(location, memory.size());
  }
  for (;;) {
    progress();
    if (ready())
      return status::ok;
    uint64_t const now_ns = time_->now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;
    if (now_ns - last_event_ns < yield_ns && seams::thread_yield())
      continue;
    if (pe_index const failed = failed_pe(); failed >= 0)
      return fail(status::peer_lost, "PE {} has died or is unreachable", failed);
    if (sleep(ready, watched, std::min(sleep_ns, deadline_ns - now_ns)))
      last_event_ns = time_->now_ns();
    if (has_both_wake_sources_)
      sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_both);
  }
}

// PEs of the node wake the alarm, and arrivals through the fabric wake a sleeper in the endpoint. A
// PE with both sources sleeps on the alarm while a thread watches the endpoint, or polls often if
// there is no such thread. True: peers use this PE's memory, and the next of them will find it
// awake.
bool job::sleep(const std::function<bool()> &ready,
                const seams::alarm_range &watched,
                uint64_t timeout_ns) const {
  TND_ASSERT(alarm_ != nullptr);
  if (impl_->watcher)
    return sleep_watched(ready, watched, timeout_ns);
  bool const sleeps_in_endpoint = serves_remote_ && !has_both_wake_sources_;
  status const code =
      sleeps_in_endpoint ? impl_->wait_for_access(time_->now_ns() + timeout_ns) : status::busy;
  if (code == status::busy)
    alarm_->sleep(ready, timeout_ns, watched);
  return code == status::ok;
}

bool job::sleep_watched(const std::function<bool()> &ready,
                        const seams::alarm_range &watched,
                        uint64_t timeout_ns) const {
  auto &watcher = *impl_->watcher;
  uint32_t const accesses_before = watcher.access_count();
  auto const is_accessed = [&] {
    return watcher.access_count() != accesses_before;
  };
  watcher.arm();
  alarm_->sleep([&] { return is_accessed() || ready(); }, timeout_ns, watched);
  return is_accessed();
}

// A PE that the launcher reports as failed, or -1. At the end PEs leave in any order.
pe_index job::launcher_failed_pe() const noexcept {
  return impl_->is_finishing.load() ? pe_index{-1} : launcher_.find_failed_rank();
}

pe_index job::failed_pe() const noexcept {
  auto &state = *impl_;
  if (state.is_finishing.load(std::memory_order_relaxed))
    return -1;
  if (pe_index const known = state.failed_pe.load(std::memory_order_relaxed); known >= 0)
    return known;
  pe_index failed = launcher_.find_failed_rank();
  // This PE may wait for a reply that was lost.
  for (auto const &entry : state.active_lanes) {
    auto *const active_lane = entry.load(std::memory_order_acquire);
    if (active_lane == nullptr || failed >= 0)
      break;
    active_lane->try_progress();
    failed = active_lane->failed_pe();
  }
  if (failed < 0 && state.staging)
    failed = state.staging->failed_pe();
  if (failed >= 0)
    state.failed_pe.store(failed, std::memory_order_relaxed);
  return failed;
}

}  // namespace tanada::onesided
