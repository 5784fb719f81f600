// backends/registry/store_plugin_loader.hpp: stores that are in plugins.
#pragma once

#include "seams/store/store_plugin.hpp"

namespace tanada::backends {

struct plugin_name {
  const char *scheme;
  const char *file;         // "libtanada_store_x.so"
  const char *requirement;  // what to install, as one sentence
};

// Loads the first file of plugin_paths() that exists, and opens its store. no_plugin: the plugin
// does not exist, is of another version or cannot start; the message begins with `requirement`. A
// plugin is never unloaded.
result<std::unique_ptr<seams::store>> plugin_store_open(const plugin_name &name);

// Why the plugin cannot be loaded, in one line; empty if it can. Does not open the store.
std::string plugin_store_error(const plugin_name &name);

}  // namespace tanada::backends
