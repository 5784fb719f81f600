// backends/node/launch.hpp: which launcher started this process, according to its environment.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.hpp"

namespace tanada::backends {

enum class launch_kind { alone, pmix };

// Returns a variable's value; null if it is not set.
using launch_environment = std::function<const char *(const char *name)>;

// TND_BOOTSTRAP=alone or =pmix decides. If it is auto or unset, the variables that launchers set
// decide. invalid: TND_BOOTSTRAP has another value. no_plugin: a launcher without PMIx started
// several processes, none of which would find the others; the message has the right command.
result<launch_kind> launch_kind_of(const launch_environment &environment);

}  // namespace tanada::backends
