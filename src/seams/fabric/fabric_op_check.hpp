// seams/fabric/fabric_op_check.hpp: what every fabric checks before it accepts an operation.
#pragma once

#include "seams/fabric/fabric.hpp"

namespace tanada::seams {

inline constexpr uint32_t fabric_depth_max = 4096;
inline constexpr uint64_t fabric_transfer_size_max = uint64_t{1} << 40;

constexpr bool fabric_is_message(fabric_op_kind kind) {
  return kind == fabric_op_kind::send || kind == fabric_op_kind::receive;
}

constexpr size_t fabric_element_size(fabric_element element) {  // bytes
  constexpr size_t sizes[fabric_element_count] = {4, 8, 4, 8, 8, 16};
  return sizes[size_t(element)];
}
// Of the atomic unit: a complex element has two.
constexpr size_t fabric_element_alignment(fabric_element element) {
  constexpr size_t sizes[fabric_element_count] = {4, 8, 4, 8, 4, 8};
  return sizes[size_t(element)];
}

constexpr bool fabric_is_vector(const fabric_op &op) {
  return op.kind == fabric_op_kind::atomic && op.addr != nullptr;
}
constexpr bool fabric_is_element(const fabric_op &op) {
  return op.kind == fabric_op_kind::atomic && op.addr == nullptr;
}
constexpr bool fabric_fetches(const fabric_op &op) {
  return fabric_is_element(op) && (op.returns_value || op.atomic == fabric_atomic::fetch ||
                                   op.atomic == fabric_atomic::compare_swap);
}
// post copies its source.
constexpr bool fabric_is_copied(const fabric_op &op) {
  return op.is_copied && (op.kind == fabric_op_kind::write || fabric_is_vector(op));
}
// Bytes of the target's memory.
constexpr uint64_t fabric_remote_size(const fabric_op &op) {
  return fabric_is_element(op) ? fabric_element_size(op.element) : op.size;
}
// The rights that the owner must have granted.
constexpr fabric_access fabric_needed_access(const fabric_op &op) {
  bool const only_reads = op.kind == fabric_op_kind::read ||
                          (fabric_is_element(op) && op.atomic == fabric_atomic::fetch);
  return {.remote_read = only_reads || fabric_fetches(op), .remote_write = !only_reads};
}

// ok, or the status with which fabric_endpoint::post refuses the operation. The endpoint itself
// looks up peers and regions.
status fabric_op_check(const fabric_op &op, const fabric_properties &properties);

// invalid: no memory, memory that wraps around, or a negative device.
status fabric_memory_check(const fabric_memory &memory);

// Counts an operation that has settled with `completion`.
void fabric_count(fabric_counters &counters, const fabric_completion &completion);

}  // namespace tanada::seams
