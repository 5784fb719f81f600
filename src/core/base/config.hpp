// core/base/config.hpp: parses settings from the environment. A value that does not parse is an
// error and never replaced by the default.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada {

// Parses "4096", "64K", "64KiB" or "1.5g" into bytes, rounded up. Units are powers of 1024, in
// letters of either case. invalid for any other text and for 2^64 or more.
result<uint64_t> parse_size(std::string_view text);

// Parses "250ms", "1.5s", "10us" or "100ns" into nanoseconds, rounded up; "none" is
// TND_NO_DEADLINE. A number without a unit is invalid.
result<uint64_t> parse_duration_ns(std::string_view text);

// Parses a decimal number in [low, high]. range: outside of it; invalid: not a number.
result<uint64_t> parse_count(std::string_view text, uint64_t low, uint64_t high);

// The index of `text` in `names`; invalid if it is not in the list.
result<uint32_t> parse_choice(std::string_view text, std::span<const std::string_view> names);

// Overwrite `value` with the variable `name` if it is set. For an invalid value, fail with a
// message that names the variable, the value and the valid values; `value` is then unchanged.
status environment_size(const char *name, uint64_t &value);
status environment_duration_ns(const char *name, uint64_t &value);
status environment_count(const char *name, uint64_t low, uint64_t high, uint32_t &value);
status environment_choice(const char *name,
                          std::span<const std::string_view> names,
                          uint32_t &value);

}  // namespace tanada
