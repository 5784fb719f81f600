// A context's operations, as the lane starts them.
#include "onesided/job/remote.hpp"

#include "onesided/job/lane_state.hpp"

namespace tanada::pgas {
namespace {

port::fabric_op op_at(port::fabric_op_kind kind, pe_index pe, const place &at) {
  TND_ASSERT(at.where != nullptr && !at.where->remote.empty());
  port::fabric_op op{};
  op.kind = kind;
  op.remote = at.where->remote[size_t(pe)];
  op.offset = at.offset;
  return op;
}

port::fabric_op transfer_at(port::fabric_op_kind kind, pe_index pe, const place &at,
                            const void *memory, size_t size) {
  auto op = op_at(kind, pe, at);
  op.addr = static_cast<std::byte *>(const_cast<void *>(memory));
  op.size = size;
  return op;
}

port::fabric_op signal_at(pe_index pe, const remote_context::signal &what) {
  auto op = op_at(port::fabric_op_kind::atomic, pe, what.at);
  op.atomic = what.kind == signal_kind::add ? port::fabric_atomic::add : port::fabric_atomic::swap;
  op.element = port::fabric_element::u64;
  op.operand = what.value;
  return op;
}

using enum port::fabric_op_kind;

}  // namespace

remote_context::~remote_context() {
  TND_ASSERT(!under_way_.is_any());
}

// A failure of earlier operations that nobody has been told yet.
status remote_context::tell() noexcept {
  if (failure_.load(std::memory_order_relaxed) == 0) [[likely]]
    return status::ok;
  return status(failure_.exchange(0));
}

status remote_context::put(pe_index pe, place to, const void *source, size_t size) {
  TND_TRY(tell());
  auto op = transfer_at(write, pe, to, source, size);
  auto &inside = lane_.inside();
  auto lock = inside.enter();
  return inside.start_from_caller(lock, *this, pe, op, nullptr);
}

status remote_context::put_nbi(pe_index pe, place to, const void *source, size_t size) {
  TND_TRY(tell());
  auto op = transfer_at(write, pe, to, source, size);
  auto &inside = lane_.inside();
  op.copied = size <= inside.copied_size_max();
  auto lock = inside.enter();
  return inside.start(lock, *this, pe, op, {});
}

status remote_context::get(pe_index pe, void *target, place from, size_t size) {
  TND_TRY(tell());
  auto op = transfer_at(read, pe, from, target, size);
  auto &inside = lane_.inside();
  lane::state::waiter what;
  auto lock = inside.enter();
  TND_TRY(inside.start(lock, *this, pe, op, {.waits = &what}));
  inside.wait(lock, *this, what);
  return what.code;
}

status remote_context::get_nbi(pe_index pe, void *target, place from, size_t size) {
  TND_TRY(tell());
  auto op = transfer_at(read, pe, from, target, size);
  auto &inside = lane_.inside();
  auto lock = inside.enter();
  return inside.start(lock, *this, pe, op, {});
}

status remote_context::update(pe_index pe, place to, const atomic &what, void *result) {
  return run(pe, to, what, result, result != nullptr);
}

status remote_context::update_nbi(pe_index pe, place to, const atomic &what, void *result) {
  return run(pe, to, what, result, false);
}

status remote_context::run(pe_index pe, place to, const atomic &what, void *result, bool waits) {
  TND_TRY(tell());
  auto op = op_at(port::fabric_op_kind::atomic, pe, to);
  op.atomic = what.kind;
  op.element = what.element;
  op.wants_value = result != nullptr;
  op.operand = what.operand;
  op.compare = what.compare;
  uint8_t const result_size = what.element == port::fabric_element::u32 ? 4 : 8;
  auto &inside = lane_.inside();
  lane::state::waiter waiter;
  auto lock = inside.enter();
  TND_TRY(inside.start(
      lock, *this, pe, op,
      {.waits = waits ? &waiter : nullptr, .result = result, .result_size = result_size}));
  if (!waits)
    return status::ok;
  inside.wait(lock, *this, waiter);
  return waiter.code;
}

status remote_context::accumulate(pe_index pe, place to, port::fabric_element element,
                                  const void *source, size_t size) {
  TND_TRY(tell());
  auto op = transfer_at(port::fabric_op_kind::atomic, pe, to, source, size);
  op.atomic = port::fabric_atomic::add;
  op.element = element;
  auto &inside = lane_.inside();
  auto lock = inside.enter();
  return inside.start_from_caller(lock, *this, pe, op, nullptr);
}

status remote_context::put_signal(pe_index pe, place to, const void *source, size_t size,
                                  const signal &then) {
  return put_then(pe, to, source, size, then, true);
}

status remote_context::put_signal_nbi(pe_index pe, place to, const void *source, size_t size,
                                      const signal &then) {
  return put_then(pe, to, source, size, then, false);
}

// On an ordered fabric the signal follows by itself; elsewhere it is posted when the write is
// visible.
status remote_context::put_then(pe_index pe, place to, const void *source, size_t size,
                                const signal &then, bool waits) {
  TND_TRY(tell());
  if (then.at.offset % sizeof(uint64_t) != 0)
    return status::invalid;
  auto last = signal_at(pe, then);
  auto &inside = lane_.inside();
  auto lock = inside.enter();
  last.can_wait = can_wait_ && inside.is_roomy();
  if (size == 0)
    return inside.start(lock, *this, pe, last, {});
  auto op = transfer_at(write, pe, to, source, size);
  bool const chains = !inside.is_ordered();
  op.more = !chains;
  op.is_told_by_next = !chains;
  lane::state::waiter early{.is_done = true};
  if (waits) {
    TND_TRY(inside.start_early(lock, *this, pe, op, chains ? &last : nullptr, early));
  } else {
    op.copied = size <= inside.copied_size_max();
    TND_TRY(inside.start(lock, *this, pe, op, {.then = chains ? &last : nullptr}));
  }
  status const code = chains ? status::ok : inside.start(lock, *this, pe, last, {});
  inside.wait(lock, *this, early);
  return code != status::ok ? code : early.code;
}

void remote_context::fence() noexcept {
  if (under_way_.is_any())
    fences_.fetch_add(1, std::memory_order_relaxed);
}

status remote_context::quiet() {
  if (under_way_.is_any()) {
    auto &inside = lane_.inside();
    auto lock = inside.enter();
    inside.drain(lock, *this);
  }
  return tell();
}

}  // namespace tanada::pgas
