// backends/node/launch.hpp: who started this process, as far as its environment tells.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.hpp"

namespace tanada::port {

enum class launch_kind { alone, pmix };

// The value of a variable, null if it is not set.
using launch_environment = std::function<const char *(const char *name)>;

// TND_BOOTSTRAP=alone or =pmix decides; auto, or nothing, asks what launchers set. invalid: another
// word. no_plugin: a launcher that does not speak PMIx started several processes, and each would be
// alone; the message says how to start them.
result<launch_kind> launch_kind_of(const launch_environment &environment);

}  // namespace tanada::port
