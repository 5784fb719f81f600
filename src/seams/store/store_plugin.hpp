// seams/store/store_plugin.hpp: the versioned table through which the core uses a store's plugin.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "seams/store/blocking_store.hpp"

namespace tanada::seams {

// What a plugin receives from the core. A plugin links no library of ours, so that no state exists
// twice.
struct store_plugin_host {
  // 0 debug, 1 info, 2 warning, 3 error; one line without its end.
  void (*log)(int level, const char *text);
};

// A plugin. Built with the core by the same compiler, hence C++ types. `version` verifies that.
struct store_plugin {
  uint32_t abi;         // store_plugin_abi
  const char *version;  // TND_VERSION_STRING
  const char *scheme;
  // Thread-safe; called once for each store. It waits for nothing outside the process: the engine's
  // first operation makes connections. On failure `message` has the reason.
  status (*engine_create)(const store_plugin_host &host,
                          std::shared_ptr<blocking_engine> &engine,
                          std::string &message);
};

// Read before the version is known.
static_assert(offsetof(store_plugin, abi) == 0 && offsetof(store_plugin, version) == 8);

inline constexpr uint32_t store_plugin_abi = 6;
inline constexpr const char *store_plugin_symbol =
    "tnd_store_plugin";  // extern "C" const store_plugin *()
using store_plugin_entry = const store_plugin *(*)();

}  // namespace tanada::seams
