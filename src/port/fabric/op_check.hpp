// port/fabric/op_check.hpp: what every fabric asks of an operation before it takes it.
#pragma once

#include "port/fabric/fabric.hpp"

namespace tanada::port {

inline constexpr uint32_t fabric_depth_max = 4096;
inline constexpr uint64_t fabric_transfer_size_max = uint64_t{1} << 40;

constexpr bool fabric_is_message(fabric_op_kind kind) {
  return kind == fabric_op_kind::send || kind == fabric_op_kind::receive;
}
constexpr bool fabric_is_atomic(fabric_op_kind kind) {
  return kind == fabric_op_kind::fetch_add || kind == fabric_op_kind::compare_swap;
}

// ok, or why fabric_endpoint::post refuses the operation. Peers and regions are the endpoint's to look up.
status fabric_op_check(const fabric_op &op, const fabric_properties &properties);

// invalid for no memory, memory that wraps around, or a negative device.
status fabric_memory_check(const fabric_memory &memory);

// Count an operation that has settled with `code`.
void fabric_count(fabric_counters &counters, const fabric_completion &completion);

}  // namespace tanada::port
