// core/base/config.hpp: settings from the environment. A value that does not parse is an error, not
// a default.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada {

// "4096", "64K", "64KiB", "1.5g": bytes, rounded up.
// Units are powers of 1024, in letters of either case. invalid for anything else, and from 2^64 on.
result<uint64_t> parse_size(std::string_view text);

// "250ms", "1.5s", "10us", "100ns", or "none" for TND_NO_DEADLINE: nanoseconds, rounded up.
// A bare number is refused.
result<uint64_t> parse_duration_ns(std::string_view text);

// Decimal number in [low, high]; range outside it, invalid if it is no number.
result<uint64_t> parse_count(std::string_view text, uint64_t low, uint64_t high);

// Index of `text` in `names`; invalid if it is not there.
result<uint32_t> parse_choice(std::string_view text, std::span<const std::string_view> names);

// Overwrite `value` with the variable `name` if it is set. A bad value fails with a message that
// names the variable, the value and what would have been right; `value` is then unchanged.
status environment_size(const char *name, uint64_t &value);
status environment_duration_ns(const char *name, uint64_t &value);
status environment_count(const char *name, uint64_t low, uint64_t high, uint32_t &value);
status environment_choice(const char *name, std::span<const std::string_view> names,
                          uint32_t &value);

}  // namespace tanada
