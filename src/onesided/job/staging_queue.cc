// Operations of the device queue, and memory that it may still access.
#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::onesided {

namespace {

// Device operations are polled for so long, and so many, before a wait: a few copies over a slow
// bus.
constexpr uint64_t copying_ns = 300'000;
constexpr size_t device_operations_max = 64;

}  // namespace

using staging::record;
using staging::record_kind;

// A timeout closes the queue until it has caught up, and a lost device closes it for good. Any
// other status concerns only that call, of which nothing is outstanding.
status stager::state::record_queue_status(status code) {
  if ((code != status::timed_out && code != status::device_lost) || code == queue_status_ ||
      has_queue_failed())
    return code;
  bool const is_timeout = code == status::timed_out;
  log(is_timeout ? log_level::warning : log_level::error,
      "pgas: the device {}; device memory of PE {} is not served {}",
      is_timeout ? "did not complete its operations in time" : "has failed",
      me_,
      is_timeout ? "until it catches up" : "any more");
  queue_status_ = code;
  return code;
}

// Waits for all its operations, up to the timeout of one.
status stager::state::queue_wait() {
  if (queue_status_ != status::ok)
    return queue_status_;
  TND_ASSERT(queue_ != nullptr);
  status const code =
      queue_->wait(seams::deadline_after(seams::monotonic_clock().now_ns(), options_.timeout_ns));
  return record_queue_status(code == status::ok || code == status::timed_out ? code
                                                                             : status::device_lost);
}

// The same, with progress of the fabric meanwhile.
status stager::state::queue_wait_serving() {
  uint64_t const until_ns = seams::monotonic_clock().now_ns() + copying_ns;
  while (queue_status_ == status::ok && seams::monotonic_clock().now_ns() < until_ns &&
         queue_->wait(0) == status::timed_out) {
    (void)progress(false);
  }
  return queue_wait();
}

// Whether the queue is done by the deadline.
void stager::state::try_resume_queue(uint64_t deadline_ns) noexcept {
  TND_ASSERT(queue_ != nullptr && queue_status_ == status::timed_out);
  status const code = queue_->wait(deadline_ns);
  if (code == status::timed_out)
    return;
  if (code != status::ok)
    return static_cast<void>(record_queue_status(status::device_lost));
  log(log_level::info, "pgas: the device of PE {} has caught up", me_);
  queue_status_ = status::ok;
  slots_free_.insert(slots_free_.end(), quarantined_slots_.begin(), quarantined_slots_.end());
  for (uint32_t const index : quarantined_services_)
    services_[index].current_stage = service::stage::free;
  services_free_.insert(
      services_free_.end(), quarantined_services_.begin(), quarantined_services_.end());
  quarantined_slots_.clear();
  quarantined_services_.clear();
  quarantined_memory_.clear();
  quarantined_slot_count_.store(0, std::memory_order_relaxed);
}

// The queue used the slot. If it may still do so, the slot is quarantined.
void stager::state::slot_retire(pe_index pe, uint32_t slot) {
  if (queue_status_ == status::ok)
    return slot_free(pe, slot);
  TND_ASSERT(slot < slot_count_ && peers_[size_t(pe)].slot_count != 0);
  peers_[size_t(pe)].slot_count--;
  quarantined_slots_.push_back(slot);
  quarantined_slot_count_.fetch_add(1, std::memory_order_relaxed);
}

void stager::state::service_retire(uint32_t index) {
  if (queue_status_ == status::ok)
    return service_free(index);
  TND_ASSERT(peers_[size_t(services_[index].pe)].service_count != 0);
  peers_[size_t(services_[index].pe)].service_count--;
  quarantined_services_.push_back(index);
  quarantined_slot_count_.fetch_add(1, std::memory_order_relaxed);
}

// Other memory takes its place.
void stager::state::quarantine(std::vector<std::byte> &memory) {
  TND_ASSERT(queue_status_ != status::ok);
  size_t const size = memory.size();
  quarantined_memory_.push_back(std::exchange(memory, std::vector<std::byte>(size)));
}

// Copies from memory that is soon used again.
status stager::state::queue_put(void *target, std::span<const std::byte> source) {
  if (queue_status_ != status::ok)
    return queue_status_;
  TND_ASSERT(queue_ != nullptr);
  return record_queue_status(queue_->put(target, source.data(), source.size()));
}

// Copies to `scratch_`.
status stager::state::queue_get(const std::byte *source, size_t size) {
  if (queue_status_ != status::ok)
    return queue_status_;
  TND_ASSERT(queue_ != nullptr && size <= scratch_.size());
  status const code = record_queue_status(queue_->get(scratch_.data(), source, size));
  if (queue_status_ != status::ok)
    quarantine(scratch_);
  return code;
}

// Operations are reported when all can see their effect. False: no operation has completed, and the
// caller makes progress on the fabric meanwhile.
bool stager::state::complete_device_operations() {
  if (device_operations_.empty())
    return false;
  uint64_t const now_ns = options_.time->now_ns();
  if (operations_since_ns_ == 0)
    operations_since_ns_ = now_ns;
  bool const may_last = device_operations_.size() < device_operations_max &&
                        queue_status_ == status::ok && now_ns - operations_since_ns_ < copying_ns;
  if (may_last && queue_->wait(0) == status::timed_out)
    return false;
  operations_since_ns_ = 0;
  status const performed = queue_wait();
  for (auto const &operation : std::exchange(device_operations_, {}))
    complete_operation(operation, operation.code == status::ok ? performed : operation.code);
  return true;
}

// Called before the caller leaves. What has arrived meanwhile is left to the thread.
void stager::state::flush_device_operations(bool is_idle) noexcept {
  if (device_operations_.empty())
    return;
  (void)queue_wait();
  (void)progress(is_idle);
  if (!device_operations_.empty())
    progress_lock_.wake_waiters();
}

void stager::state::complete_operation(const device_operation &operation, status code) {
  if (operation.action == device_operation::completion_action::no_action) {
    // A part of a get: its failure fails the whole get.
    auto &parts = requests_[operation.index].parts_status;
    if (parts == status::ok)
      parts = code;
    return;
  }
  if (operation.action == device_operation::completion_action::copied_to_target) {
    TND_ASSERT(requests_[operation.index].is_device_copying);
    status const parts = std::exchange(requests_[operation.index].parts_status, status::ok);
    return finish_request(operation.index, parts == status::ok ? code : parts);
  }
  bool const has_failed = peers_[size_t(operation.pe)].has_failed;
  if (operation.action == device_operation::completion_action::announce && code == status::ok &&
      !has_failed)
    return announce(operation.index);
  if (operation.index != no_index)
    service_retire(operation.index);
  reply(operation.pe, operation.id, code);
  if (operation.size != 0 && options_.on_heap_changed)
    options_.on_heap_changed(operation.offset, operation.size);
}

}  // namespace tanada::onesided
