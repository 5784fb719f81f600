// What the device is asked to do, and what it has until its queue says that it is done.
#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::pgas {

namespace {

// As long, and as many, as are not waited for alone: some copies at a slow bus's rate.
constexpr uint64_t copying_ns = 300'000;
constexpr size_t deeds_max = 64;

}  // namespace

using staging::record;
using staging::record_kind;

// An operation that has not ended in time closes the queue until it has caught up, and a lost
// device for good. Whatever else it says concerns that one call, of which nothing is under way.
status stager::state::queue_said(status code) {
  if ((code != status::timed_out && code != status::device_lost) || code == queue_code_ ||
      is_useless())
    return code;
  bool const is_late = code == status::timed_out;
  log(is_late ? log_level::warning : log_level::error,
      "pgas: the device %s: memory of PE %d's is not served by it %s",
      is_late ? "has not done in time what it was asked to do" : "has failed", me_,
      is_late ? "until it has" : "any more");
  queue_code_ = code;
  return code;
}

// All that it was asked to do, by the time that an operation has.
status stager::state::queue_wait() {
  if (queue_code_ != status::ok)
    return queue_code_;
  status const code =
      queue_->wait(port::deadline_after(port::monotonic_clock().now_ns(), options_.timeout_ns));
  return queue_said(code == status::ok || code == status::timed_out ? code : status::device_lost);
}

// The same; the fabric is looked after meanwhile.
status stager::state::queue_wait_serving() {
  uint64_t const until_ns = port::monotonic_clock().now_ns() + copying_ns;
  while (queue_code_ == status::ok && port::monotonic_clock().now_ns() < until_ns &&
         queue_->wait(0) == status::timed_out) {
    (void)progress(false);
  }
  return queue_wait();
}

// Whether it is done by then.
void stager::state::catch_up(uint64_t deadline_ns) noexcept {
  status const code = queue_->wait(deadline_ns);
  if (code == status::timed_out)
    return;
  if (code != status::ok)
    return static_cast<void>(queue_said(status::device_lost));
  log(log_level::info, "pgas: the device of PE %d has caught up", me_);
  queue_code_ = status::ok;
  slots_free_.insert(slots_free_.end(), withheld_slots_.begin(), withheld_slots_.end());
  for (uint32_t const index : withheld_services_)
    services_[index].at = service::stage::free;
  services_free_.insert(services_free_.end(), withheld_services_.begin(), withheld_services_.end());
  withheld_slots_.clear();
  withheld_services_.clear();
  withheld_memory_.clear();
  withheld_count_.store(0, std::memory_order_relaxed);
}

// The queue had it. What it may still be at is out of use.
void stager::state::slot_let_go(pe_index pe, uint32_t slot) {
  if (queue_code_ == status::ok)
    return slot_free(pe, slot);
  peers_[size_t(pe)].slots--;
  withheld_slots_.push_back(slot);
  withheld_count_.fetch_add(1, std::memory_order_relaxed);
}

void stager::state::service_let_go(uint32_t index) {
  if (queue_code_ == status::ok)
    return service_free(index);
  peers_[size_t(services_[index].pe)].serving--;
  withheld_services_.push_back(index);
  withheld_count_.fetch_add(1, std::memory_order_relaxed);
}

// Others take its place.
void stager::state::withhold(std::vector<std::byte> &memory) {
  size_t const size = memory.size();
  withheld_memory_.push_back(std::exchange(memory, std::vector<std::byte>(size)));
}

// From memory that is somebody else's soon.
status stager::state::queue_put(void *target, std::span<const std::byte> source) {
  if (queue_code_ != status::ok)
    return queue_code_;
  return queue_said(queue_->put(target, source.data(), source.size()));
}

// To `scratch_`.
status stager::state::queue_get(const std::byte *source, size_t size) {
  if (queue_code_ != status::ok)
    return queue_code_;
  status const code = queue_said(queue_->get(scratch_.data(), source, size));
  if (queue_code_ != status::ok)
    withhold(scratch_);
  return code;
}

// What was done is told when it is seen by all. False: nothing was; the fabric is looked after
// meanwhile.
bool stager::state::settle_deeds() {
  if (deeds_.empty())
    return false;
  uint64_t const now_ns = options_.time->now_ns();
  if (deeds_since_ns_ == 0)
    deeds_since_ns_ = now_ns;
  bool const may_last = deeds_.size() < deeds_max && queue_code_ == status::ok &&
                        now_ns - deeds_since_ns_ < copying_ns;
  if (may_last && queue_->wait(0) == status::timed_out)
    return false;
  deeds_since_ns_ = 0;
  status const performed = queue_wait();
  for (auto const &each : std::exchange(deeds_, {}))
    settle(each, each.code == status::ok ? performed : each.code);
  return true;
}

// Before the caller goes away: what has come meanwhile is the thread's.
void stager::state::leave_no_deeds(bool is_idle) noexcept {
  if (deeds_.empty())
    return;
  (void)queue_wait();
  (void)progress(is_idle);
  if (!deeds_.empty())
    turns_.tell_others();
}

void stager::state::settle(const deed &what, status code) {
  if (what.is == deed::what::nothing) {
    // A part of a get: its failure is the whole get's.
    auto &parts = requests_[what.index].parts;
    if (parts == status::ok)
      parts = code;
    return;
  }
  if (what.is == deed::what::landed) {
    status const parts = std::exchange(requests_[what.index].parts, status::ok);
    return finish(what.index, parts == status::ok ? code : parts);
  }
  bool const is_lost = peers_[size_t(what.pe)].is_lost;
  if (what.is == deed::what::offer && code == status::ok && !is_lost)
    return offer(what.index);
  if (what.index != none)
    service_let_go(what.index);
  reply(what.pe, what.id, code);
  if (what.size != 0 && options_.changed)
    options_.changed(what.offset, what.size);
}

}  // namespace tanada::pgas
