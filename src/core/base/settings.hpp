// core/base/settings.hpp: environment variables that begin with TND_ are ours, and one that is not
// known is an error.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada {

// True for every name of core/base/setting_names.hpp.
bool setting_is_known(std::string_view name);

// The name with the fewest edits between it and `name`; "" if there is none.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// One sentence for each variable that is set, is not empty, and cannot be understood without its
// product: an unknown name that begins with TND_, or a value that choice_settings does not list.
std::vector<std::string> setting_faults();

// What every product calls first when it starts: invalid, with all of setting_faults() in
// last_message() and in the log, or ok. It reads the environment at each call.
status settings_check();

}  // namespace tanada
