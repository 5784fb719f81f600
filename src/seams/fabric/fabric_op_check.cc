// Checks of operations and memory, and counters, which all fabrics share.
#include "seams/fabric/fabric_op_check.hpp"

namespace tanada::seams {
namespace {

bool wraps(uint64_t addr, uint64_t size) {
  return size > ~uint64_t{0} - addr;
}

bool is_sound_atomic(const fabric_op &op) {
  if (size_t(op.atomic) >= fabric_atomic_count || size_t(op.element) >= fabric_element_count)
    return false;
  size_t const alignment = fabric_element_alignment(op.element);
  if (op.offset % alignment != 0 || op.remote.base % alignment != 0)
    return false;
  if (fabric_is_element(op))
    return op.element == fabric_element::u32 || op.element == fabric_element::u64;
  return op.atomic == fabric_atomic::add && !op.returns_value &&
         op.size % fabric_element_size(op.element) == 0;
}

bool has_sound_memory(const fabric_op &op) {
  return !wraps(reinterpret_cast<uintptr_t>(op.addr), op.size) &&
         (op.addr != nullptr || op.size == 0);
}

// The part at the target.
status remote_check(const fabric_op &op, const fabric_properties &properties) {
  uint64_t const size = fabric_remote_size(op);
  if (size == 0 || size > fabric_transfer_size_max || wraps(op.remote.base, op.remote.size))
    return status::invalid;
  if (fabric_is_copied(op) && size > properties.copied_size_max)
    return status::too_big;
  return op.offset <= op.remote.size && op.remote.size - op.offset >= size ? status::ok
                                                                           : status::range;
}

}  // namespace

const char *fabric_path_name(fabric_path path) noexcept {
  static constexpr const char *names[fabric_path_count] = {
      "shared_memory", "rdma", "tcp", "simulated"};
  return size_t(path) < fabric_path_count ? names[size_t(path)] : "unknown";
}

status fabric_op_check(const fabric_op &op, const fabric_properties &properties) {
  if (size_t(op.kind) >= fabric_op_kind_count)
    return status::invalid;
  if (op.kind != fabric_op_kind::receive && op.peer == no_fabric_peer)
    return status::invalid;
  bool const is_atomic = op.kind == fabric_op_kind::atomic;
  if (is_atomic && !properties.has_atomics)
    return status::not_supported;
  if (is_atomic && !is_sound_atomic(op))
    return status::invalid;
  if (!fabric_is_element(op) && !has_sound_memory(op))
    return status::invalid;
  if (op.kind == fabric_op_kind::send && op.size > properties.message_size_max)
    return status::too_big;
  return fabric_is_message(op.kind) ? status::ok : remote_check(op, properties);
}

status fabric_memory_check(const fabric_memory &memory) {
  if (memory.addr == nullptr || memory.size == 0)
    return status::invalid;
  if (wraps(reinterpret_cast<uintptr_t>(memory.addr), memory.size))
    return status::invalid;
  if (memory.kind == fabric_memory_kind::cuda && memory.device < 0)
    return status::invalid;
  return status::ok;
}

void fabric_count(fabric_counters &counters, const fabric_completion &completion) {
  switch (completion.code) {
    case status::ok:
      counters.ops[size_t(completion.path)]++;
      counters.bytes[size_t(completion.path)] += completion.size;
      return;
    case status::timed_out:
      counters.errors_timed_out++;
      return;
    case status::peer_lost:
      counters.errors_peer_lost++;
      return;
    case status::access:
      counters.errors_access++;
      return;
    case status::canceled:
      counters.errors_canceled++;
      return;
    default:
      counters.errors_other++;
      return;
  }
}

}  // namespace tanada::seams
