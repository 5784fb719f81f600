// core/base/settings.hpp: environment variables that begin with TND_ are reserved, and an unknown
// one is an error.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada {

// True for every name in core/base/setting_names.hpp.
bool setting_is_known(std::string_view name);

// Letters to insert, remove or replace to make one text of the other.
size_t edit_distance(std::string_view first, std::string_view second);

// The name with the smallest edit distance to `name`; "" if `names` is empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// Returns one sentence for each non-empty variable that is invalid for every product. That is an
// unknown name beginning with TND_, or a value that choice_settings does not list.
std::vector<std::string> setting_faults();

// Every product calls this first. invalid: at least one variable is invalid; all of
// setting_faults() are in last_message() and in the log. It reads the environment in each call.
status settings_check();

}  // namespace tanada
