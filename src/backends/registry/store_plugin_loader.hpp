// backends/registry/store_plugin_loader.hpp: stores that live in plugins.
#pragma once

#include "seams/store/store_plugin.hpp"

namespace tanada::port {

struct plugin_name {
  const char *scheme;
  const char *file;  // "libtanada_store_x.so"
  const char *need;  // what to install, in one sentence
};

// Load the plugin, the first of plugin_paths() that is there, and open its store.
// no_plugin when it is not there, is of another version or cannot start; the message begins with
// `need`. A plugin is never unloaded.
result<std::unique_ptr<store>> plugin_store_open(const plugin_name &name);

// Why the plugin cannot be loaded, in one line; empty when it can. The store is not opened.
std::string plugin_store_trouble(const plugin_name &name);

}  // namespace tanada::port
