// Waiting: who waits looks, then lets others run, then sleeps; and sees when a PE has died.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/job_inside.hpp"
#include "seams/os/yield.hpp"

namespace tanada::pgas {
namespace {

// How long a waiter lets others run before it sleeps. Where PEs queue for processors it is soon out
// of their way.
constexpr uint64_t yield_ns_roomy = 2'000'000, yield_ns_crowded = 20'000;
constexpr uint64_t sleep_ns_first = 20'000, sleep_ns_both = 200'000, sleep_ns_last = 1'000'000;

}  // namespace

void job::attend() const {
  if (!answers_)
    return;
  if (inside_->home != nullptr)
    inside_->home->look();
  else if (inside_->answering)
    inside_->answering->attend();
  if (inside_->staging && inside_->is_staging_due())
    inside_->staging->attend();
  (void)inside_->attend_lanes();
}

bool job::inside::attend_lanes() noexcept {
  bool is_busy = false;
  for (auto const &each : attended) {
    auto *const which = each.load(std::memory_order_acquire);
    if (which == nullptr)
      break;
    if (which->attend())
      is_busy = true;
  }
  return is_busy;
}

status job::wait_long(const std::function<bool()> &ready, std::span<const std::byte> on,
                      uint64_t deadline_ns, uint64_t nap_ns) const {
  uint64_t since_ns = time_->now_ns();  // nothing has come
  bool const is_one_of_many =
      nap_ns > sleep_ns_last;  // who looks as seldom as that is in nobody's way
  uint64_t const yield_ns = is_one_of_many ? 0 : is_crowded_ ? yield_ns_crowded : yield_ns_roomy;
  uint64_t sleep_ns = has_both_ ? sleep_ns_first : std::max(sleep_ns_last, nap_ns);
  port::alarm_range watched;
  if (!on.empty()) {
    if (auto const at = map_.locate(on.data(), on.size(), me()); at.where != nullptr)
      watched = map_.watched(at, on.size());
  }
  for (;;) {
    attend();
    if (ready())
      return status::ok;
    uint64_t const now_ns = time_->now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;
    if (now_ns - since_ns < yield_ns && port::thread_yield())
      continue;
    if (pe_index const gone = lost(); gone >= 0)
      return fail(status::peer_lost, "PE %d has died, or is not reached", gone);
    if (sleep(ready, watched, std::min(sleep_ns, deadline_ns - now_ns)))
      since_ns = time_->now_ns();
    if (has_both_)
      sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_both);
  }
}

// Neighbours ring, and what comes by the fabric wakes who sleeps in it; who has both looks often.
// True: peers use our memory, and the next of them will find us awake.
bool job::sleep(const std::function<bool()> &ready, const port::alarm_range &on,
                uint64_t timeout_ns) const {
  bool const is_by_fabric_alone = answers_ && !has_both_;
  status const code =
      is_by_fabric_alone ? inside_->rest(time_->now_ns() + timeout_ns) : status::busy;
  if (code == status::busy)
    alarm_->sleep(ready, timeout_ns, on);
  return code == status::ok;
}

pe_index job::lost() const noexcept {
  auto &inner = *inside_;
  if (inner.is_finishing.load(std::memory_order_relaxed))
    return -1;
  if (pe_index const known = inner.lost.load(std::memory_order_relaxed); known >= 0)
    return known;
  pe_index gone = launcher_.lost();
  // What this PE waits for may be the answer to something that was lost.
  for (auto const &each : inner.attended) {
    auto *const which = each.load(std::memory_order_acquire);
    if (which == nullptr || gone >= 0)
      break;
    which->look();
    gone = which->failed();
  }
  if (gone < 0 && inner.staging)
    gone = inner.staging->failed();
  if (gone >= 0)
    inner.lost.store(gone, std::memory_order_relaxed);
  return gone;
}

}  // namespace tanada::pgas
