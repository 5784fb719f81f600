// backends/registry/plugin_table.hpp: loads the table of functions of a plugin.
#pragma once

#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "seams/os/plugin_paths.hpp"

namespace tanada::backends {

// Returns the table behind `symbol` of the plugin `file`, which stays loaded. Returns null and sets
// `reason` if the plugin does not exist, cannot be loaded, or is of another version.
template <class Table>
const Table *plugin_table(const char *file, const char *symbol, uint32_t abi, std::string &reason) {
  reason = std::string{file} + " was not found";
  for (const auto &path : seams::plugin_paths(file)) {
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0)
      continue;
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reason = dlerror();
      continue;
    }
    auto const entry = reinterpret_cast<const Table *(*)()>(dlsym(handle, symbol));
    const Table *const table = entry != nullptr ? entry() : nullptr;
    if (table != nullptr && table->abi == abi &&
        std::strcmp(table->version, TND_VERSION_STRING) == 0)
      return table;
    reason = path + " is not of version " TND_VERSION_STRING;
    return nullptr;
  }
  return nullptr;
}

}  // namespace tanada::backends
