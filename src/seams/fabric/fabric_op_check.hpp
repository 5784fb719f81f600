// seams/fabric/fabric_op_check.hpp: what every fabric asks of an operation before it takes it.
#pragma once

#include "seams/fabric/fabric.hpp"

namespace tanada::port {

inline constexpr uint32_t fabric_depth_max = 4096;
inline constexpr uint64_t fabric_transfer_size_max = uint64_t{1} << 40;

constexpr bool fabric_is_message(fabric_op_kind kind) {
  return kind == fabric_op_kind::send || kind == fabric_op_kind::receive;
}

constexpr size_t fabric_element_size(fabric_element element) {  // bytes
  constexpr size_t sizes[fabric_element_count] = {4, 8, 4, 8, 8, 16};
  return sizes[size_t(element)];
}
// Of what is atomic: a complex element is two.
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
  return fabric_is_element(op) && (op.wants_value || op.atomic == fabric_atomic::fetch ||
                                   op.atomic == fabric_atomic::compare_swap);
}
// Its source is copied by post.
constexpr bool fabric_is_copied(const fabric_op &op) {
  return op.copied && (op.kind == fabric_op_kind::write || fabric_is_vector(op));
}
// Bytes of the target's memory.
constexpr uint64_t fabric_remote_size(const fabric_op &op) {
  return fabric_is_element(op) ? fabric_element_size(op.element) : op.size;
}
// What the owner must have allowed.
constexpr fabric_access fabric_needed_access(const fabric_op &op) {
  bool const only_reads = op.kind == fabric_op_kind::read ||
                          (fabric_is_element(op) && op.atomic == fabric_atomic::fetch);
  return {.remote_read = only_reads || fabric_fetches(op), .remote_write = !only_reads};
}

// ok, or why fabric_endpoint::post refuses the operation. Peers and regions are the endpoint's to
// look up.
status fabric_op_check(const fabric_op &op, const fabric_properties &properties);

// invalid for no memory, memory that wraps around, or a negative device.
status fabric_memory_check(const fabric_memory &memory);

// Count an operation that has settled with `code`.
void fabric_count(fabric_counters &counters, const fabric_completion &completion);

}  // namespace tanada::port
