// seams/bootstrap/bootstrap_plugin.hpp: everything that crosses between the core and
// libtanada_bootstrap_pmix.so: one versioned table.
#pragma once

#include <memory>
#include <string>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

// Built with the core by the same compiler, hence C++ types; `version` makes sure of it.
struct bootstrap_plugin {
  uint32_t abi;         // bootstrap_plugin_abi
  const char *version;  // TND_VERSION_STRING
  // On failure `message` says why.
  status (*open)(std::unique_ptr<bootstrap> &made, std::string &message);
  std::string (
      *last_message)();  // of the plugin's own code on this thread: it has its own copy of `base`
};

inline constexpr uint32_t bootstrap_plugin_abi = 2;
inline constexpr const char *bootstrap_plugin_symbol =
    "tnd_bootstrap_plugin";  // extern "C" const bootstrap_plugin *()
using bootstrap_plugin_entry = const bootstrap_plugin *(*)();

// The job that PMIx's launcher made, by the plugin, which is loaded at the first call and stays.
// no_plugin: it or libpmix is missing, and the message names the package. What PMIx says, with a
// message.
result<std::unique_ptr<bootstrap>> bootstrap_pmix();

}  // namespace tanada::port
