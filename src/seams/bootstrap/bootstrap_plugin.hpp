// seams/bootstrap/bootstrap_plugin.hpp: the versioned table through which the core uses
// libtanada_bootstrap_pmix.so.
#pragma once

#include <memory>
#include <string>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::seams {

// Built with the core by the same compiler, hence C++ types. `version` verifies that.
struct bootstrap_plugin {
  uint32_t abi;         // bootstrap_plugin_abi
  const char *version;  // TND_VERSION_STRING
  // On failure `message` has the reason.
  status (*open)(std::unique_ptr<bootstrap> &instance, std::string &message);
  // Of the plugin's own code on this thread: it has its own copy of `base`.
  std::string (*last_message)();
};

// Read before the version is known.
static_assert(offsetof(bootstrap_plugin, abi) == 0 && offsetof(bootstrap_plugin, version) == 8);

inline constexpr uint32_t bootstrap_plugin_abi = 2;
inline constexpr const char *bootstrap_plugin_symbol =
    "tnd_bootstrap_plugin";  // extern "C" const bootstrap_plugin *()
using bootstrap_plugin_entry = const bootstrap_plugin *(*)();

// The job of PMIx's launcher, through the plugin, which is loaded at the first call and stays
// loaded. no_plugin: the plugin or libpmix is missing, and the message names the package. Otherwise
// PMIx's error, with a message.
result<std::unique_ptr<bootstrap>> bootstrap_pmix();

}  // namespace tanada::seams
