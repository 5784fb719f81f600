// A context's operations, as the lane starts them.
#include "onesided/job/remote.hpp"

#include "onesided/job/lane_state.hpp"

namespace tanada::onesided {
namespace {

seams::fabric_op op_at(seams::fabric_op_kind kind, pe_index pe, const symmetric_address &location) {
  TND_ASSERT(location.segment_ptr != nullptr && !location.segment_ptr->remote.empty());
  seams::fabric_op op{};
  op.kind = kind;
  op.remote = location.segment_ptr->remote[size_t(pe)];
  op.offset = location.offset;
  return op;
}

seams::fabric_op transfer_at(seams::fabric_op_kind kind,
                             pe_index pe,
                             const symmetric_address &location,
                             const void *memory,
                             size_t size) {
  TND_ASSERT(size != 0);
  auto op = op_at(kind, pe, location);
  op.addr = static_cast<std::byte *>(const_cast<void *>(memory));
  op.size = size;
  return op;
}

// Whether the next operation to the PE follows at once, and reports the outcome of both.
void set_followed(seams::fabric_op &op, bool is_followed) {
  op.more = is_followed;
  op.is_reported_by_next = is_followed;
}

seams::fabric_op signal_at(pe_index pe, const remote_context::signal &signal_update) {
  auto op = op_at(seams::fabric_op_kind::atomic, pe, signal_update.location);
  op.atomic = signal_update.kind == signal_kind::add ? seams::fabric_atomic::add
                                                     : seams::fabric_atomic::swap;
  op.element = seams::fabric_element::u64;
  op.operand = signal_update.value;
  return op;
}

using enum seams::fabric_op_kind;

}  // namespace

remote_context::~remote_context() {
  TND_ASSERT(!epochs_.has_outstanding());
}

// Returns, once, a failure of earlier operations.
status remote_context::take_failure() noexcept {
  if (failure_.load(std::memory_order_relaxed) == 0) [[likely]]
    return status::ok;
  return status(failure_.exchange(0));
}

status remote_context::put(pe_index pe, symmetric_address target, const void *source, size_t size) {
  TND_TRY(take_failure());
  auto op = transfer_at(write, pe, target, source, size);
  auto &impl = lane_.impl();
  auto lock = impl.enter();
  return impl.start_from_caller(lock, *this, pe, op, nullptr);
}

status remote_context::put_nbi(pe_index pe,
                               symmetric_address target,
                               const void *source,
                               size_t size) {
  TND_TRY(take_failure());
  auto op = transfer_at(write, pe, target, source, size);
  auto &impl = lane_.impl();
  op.is_copied = size <= impl.copied_size_max();
  auto lock = impl.enter();
  return impl.start(lock, *this, pe, op, {});
}

status remote_context::get(pe_index pe, void *target, symmetric_address source, size_t size) {
  TND_TRY(take_failure());
  auto op = transfer_at(read, pe, source, target, size);
  auto &impl = lane_.impl();
  lane::state::blocking_wait waiter;
  auto lock = impl.enter();
  TND_TRY(impl.start(lock, *this, pe, op, {.waiter = &waiter}));
  impl.wait(lock, *this, waiter);
  return waiter.code;
}

status remote_context::get_nbi(pe_index pe, void *target, symmetric_address source, size_t size) {
  TND_TRY(take_failure());
  auto op = transfer_at(read, pe, source, target, size);
  auto &impl = lane_.impl();
  auto lock = impl.enter();
  return impl.start(lock, *this, pe, op, {});
}

status remote_context::update(pe_index pe,
                              symmetric_address target,
                              const atomic &operation,
                              void *result) {
  return post_update(pe, target, operation, result, result != nullptr);
}

status remote_context::update_nbi(pe_index pe,
                                  symmetric_address target,
                                  const atomic &operation,
                                  void *result) {
  return post_update(pe, target, operation, result, false);
}

status remote_context::post_update(pe_index pe,
                                   symmetric_address target,
                                   const atomic &operation,
                                   void *result,
                                   bool is_blocking) {
  TND_TRY(take_failure());
  auto op = op_at(seams::fabric_op_kind::atomic, pe, target);
  op.atomic = operation.kind;
  op.element = operation.element;
  op.returns_value = result != nullptr;
  op.operand = operation.operand;
  op.compare = operation.compare;
  uint8_t const result_size = operation.element == seams::fabric_element::u32 ? 4 : 8;
  auto &impl = lane_.impl();
  lane::state::blocking_wait waiter;
  auto lock = impl.enter();
  TND_TRY(impl.start(
      lock,
      *this,
      pe,
      op,
      {.waiter = is_blocking ? &waiter : nullptr, .result = result, .result_size = result_size}));
  if (!is_blocking)
    return status::ok;
  impl.wait(lock, *this, waiter);
  return waiter.code;
}

status remote_context::accumulate(pe_index pe,
                                  symmetric_address target,
                                  seams::fabric_element element,
                                  const void *source,
                                  size_t size) {
  TND_TRY(take_failure());
  auto op = transfer_at(seams::fabric_op_kind::atomic, pe, target, source, size);
  op.atomic = seams::fabric_atomic::add;
  op.element = element;
  auto &impl = lane_.impl();
  auto lock = impl.enter();
  return impl.start_from_caller(lock, *this, pe, op, nullptr);
}

status remote_context::put_signal(pe_index pe,
                                  symmetric_address target,
                                  const void *source,
                                  size_t size,
                                  const signal &signal_update) {
  return put_with_signal(pe, target, source, size, signal_update, true);
}

status remote_context::put_signal_nbi(pe_index pe,
                                      symmetric_address target,
                                      const void *source,
                                      size_t size,
                                      const signal &signal_update) {
  return put_with_signal(pe, target, source, size, signal_update, false);
}

// On an ordered fabric the signal follows the write by itself. Otherwise it is posted when the
// write is visible.
status remote_context::put_with_signal(pe_index pe,
                                       symmetric_address target,
                                       const void *source,
                                       size_t size,
                                       const signal &signal_update,
                                       bool is_blocking) {
  TND_TRY(take_failure());
  if (signal_update.location.offset % sizeof(uint64_t) != 0)
    return status::invalid;
  auto &impl = lane_.impl();
  auto lock = impl.enter();
  auto signal_op = signal_at(pe, signal_update);
  signal_op.may_delay = may_delay_ && impl.has_spare_records();
  if (size == 0)
    return impl.start(lock, *this, pe, signal_op, {});
  bool const is_chained = !impl.is_ordered();
  auto op = transfer_at(write, pe, target, source, size);
  set_followed(op, !is_chained);
  auto const *const chained_op = is_chained ? &signal_op : nullptr;
  lane::state::blocking_wait data_wait{.is_done = true};
  if (is_blocking) {
    TND_TRY(impl.start_early(lock, *this, pe, op, chained_op, data_wait));
  } else {
    op.is_copied = size <= impl.copied_size_max();
    TND_TRY(impl.start(lock, *this, pe, op, {.chained_op = chained_op}));
  }
  status const code = is_chained ? status::ok : impl.start(lock, *this, pe, signal_op, {});
  impl.wait(lock, *this, data_wait);
  return code != status::ok ? code : data_wait.code;
}

void remote_context::fence() noexcept {
  if (epochs_.has_outstanding())
    fence_count_.fetch_add(1, std::memory_order_relaxed);
}

status remote_context::apply_fence() {
  TND_TRY(take_failure());
  auto &impl = lane_.impl();
  auto lock = impl.enter();
  impl.enforce_fence(lock, *this);
  return status::ok;
}

status remote_context::quiet() {
  if (epochs_.has_outstanding()) {
    auto &impl = lane_.impl();
    auto lock = impl.enter();
    impl.drain(lock, *this);
  }
  return take_failure();
}

}  // namespace tanada::onesided
