// Parses sizes, durations, counts and choices from the environment.
#include "core/base/config.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "core/base/checked.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/settings.hpp"

namespace tanada {
namespace {

struct unit {
  std::string_view name;
  uint64_t factor;
};

constexpr unit size_units[] = {{"", 1},
                               {"b", 1},
                               {"k", uint64_t{1} << 10},
                               {"kib", uint64_t{1} << 10},
                               {"m", uint64_t{1} << 20},
                               {"mib", uint64_t{1} << 20},
                               {"g", uint64_t{1} << 30},
                               {"gib", uint64_t{1} << 30},
                               {"t", uint64_t{1} << 40},
                               {"tib", uint64_t{1} << 40}};

constexpr unit duration_units[] = {
    {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}};

struct number {
  uint64_t value;
  std::string_view rest;  // text after the digits
};

// Accepts only decimal digits: from_chars takes no sign for unsigned types, no blanks and no 0x.
result<number> parse_number(std::string_view text) {
  number parsed{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed.value);
  if (error == std::errc::result_out_of_range)
    return status::range;
  if (error != std::errc{})
    return status::invalid;
  parsed.rest = text.substr(size_t(end - text.data()));
  return parsed;
}

// The fraction `decimals` ("25" of 0.25) of `factor`, rounded up. It starts at the last digit, so
// the result is exact for any number of digits.
uint64_t fraction_of(uint64_t factor, std::string_view decimals) {
  constexpr uint64_t base = 10;
  uint64_t part = 0;
  for (size_t i = decimals.size(); i > 0; i--) {
    part = (uint64_t(decimals[i - 1] - '0') * factor + part + base - 1) / base;
  }
  return part;
}

size_t digit_count(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

// Accepts "1.5G", ".5G" and "1G", but not "1.G".
result<uint64_t> parse_with_unit(std::string_view text, std::span<const unit> units) {
  std::string_view const whole = text.substr(0, digit_count(text));
  text.remove_prefix(whole.size());
  std::string_view decimals;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    decimals = text.substr(0, digit_count(text));
    if (decimals.empty())
      return status::invalid;
    text.remove_prefix(decimals.size());
  }
  if (whole.empty() && decimals.empty())
    return status::invalid;
  auto const chosen = std::ranges::find(units, text, &unit::name);
  if (chosen == units.end())
    return status::invalid;
  uint64_t value = 0;
  if (!whole.empty()) {
    auto parsed = parse_number(whole);
    if (!parsed.ok())
      return status::invalid;
    if (!checked_multiply(parsed.value().value, chosen->factor, value))
      return status::invalid;
  }
  uint64_t total = 0;
  if (!checked_add(value, fraction_of(chosen->factor, decimals), total))
    return status::invalid;
  return total;
}

// The value of the variable; nullptr if it is unset or empty.
const char *variable(const char *name) {
  // otherwise settings_check() would refuse a program that sets it: core/base/setting_names.hpp
  TND_ASSERT(setting_is_known(name));
  const char *text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

result<uint64_t> parse_size(std::string_view text) {
  std::string lower_case{text};
  for (char &letter : lower_case) {
    if (letter >= 'A' && letter <= 'Z')
      letter = char(letter - 'A' + 'a');
  }
  return parse_with_unit(lower_case, size_units);
}

result<uint64_t> parse_duration_ns(std::string_view text) {
  if (text == "none")
    return TND_NO_DEADLINE;
  return parse_with_unit(text, duration_units);
}

result<uint64_t> parse_count(std::string_view text, uint64_t low, uint64_t high) {
  auto parsed = parse_number(text);
  if (!parsed.ok())
    return parsed.error();
  if (!parsed.value().rest.empty())
    return status::invalid;
  uint64_t const value = parsed.value().value;
  if (value < low || value > high)
    return status::range;
  return value;
}

result<uint32_t> parse_choice(std::string_view text, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); i++)
    if (names[i] == text)
      return uint32_t(i);
  return status::invalid;
}

status environment_size(const char *name, uint64_t &value) {
  const char *text = variable(name);
  if (text == nullptr)
    return status::ok;
  auto parsed = parse_size(text);
  if (!parsed.ok())
    return fail(parsed.error(),
                "{}={} is not a size: use bytes, or a number with K, M, G or T, such as 64KiB",
                name,
                text);
  value = parsed.value();
  return status::ok;
}

status environment_duration_ns(const char *name, uint64_t &value) {
  const char *text = variable(name);
  if (text == nullptr)
    return status::ok;
  auto parsed = parse_duration_ns(text);
  if (!parsed.ok())
    return fail(
        parsed.error(),
        "{}={} is not a duration: use a number with ns, us, ms, s or min, such as 250ms, or none",
        name,
        text);
  value = parsed.value();
  return status::ok;
}

status environment_count(const char *name, uint64_t low, uint64_t high, uint32_t &value) {
  const char *text = variable(name);
  if (text == nullptr)
    return status::ok;
  auto parsed = parse_count(text, low, high);
  if (!parsed.ok() || parsed.value() > UINT32_MAX)
    return fail(parsed.ok() ? status::range : parsed.error(),
                "{}={} is not a number from {} to {}",
                name,
                text,
                low,
                high);
  value = uint32_t(parsed.value());
  return status::ok;
}

status environment_choice(const char *name,
                          std::span<const std::string_view> names,
                          uint32_t &value) {
  const char *text = variable(name);
  if (text == nullptr)
    return status::ok;
  auto parsed = parse_choice(text, names);
  if (parsed.ok()) {
    value = parsed.value();
    return status::ok;
  }
  std::string valid_names;
  for (std::string_view choice : names)
    valid_names += (valid_names.empty() ? "" : ", ") + std::string(choice);
  return fail(parsed.error(), "{}={} is invalid; choose one of: {}", name, text, valid_names);
}

}  // namespace tanada
