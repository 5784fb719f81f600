// seams/store/store_op_check.hpp: what every store checks before it accepts an operation.
#pragma once

#include "seams/store/store.hpp"

namespace tanada::seams {

// Files are at most this long, so that an offset plus a size never overflows a signed offset.
inline constexpr uint64_t store_size_max = uint64_t{1} << 62;
static_assert(store_size_max <= uint64_t(INT64_MAX) - store_size_max + 1);
inline constexpr uint32_t store_queue_depth_max = 65536;

// ok, or invalid for a malformed op: a URL of another scheme or with a NUL in it, flags that
// contradict each other, a NULL buffer, a range past store_size_max. `scheme` is the store's own.
status op_check(const store_op &op, std::string_view scheme);

// The sum of the buffers' sizes. op_check has ensured that it does not overflow.
uint64_t buffers_size(std::span<const store_buffer> buffers) noexcept;

// invalid unless 1 <= depth <= store_queue_depth_max.
status queue_depth_check(uint32_t depth);

// `name` as `list` reports it for `prefix`: cut after the first '/' that follows the prefix. Empty
// when it does not begin with the prefix.
std::string_view listed_name(std::string_view name, std::string_view prefix) noexcept;

}  // namespace tanada::seams
