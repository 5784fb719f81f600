// backends/registry/plugin_table.hpp: the one table by which a plugin is spoken to.
#pragma once

#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "seams/os/plugin_paths.hpp"

namespace tanada::port {

// The table behind `symbol` of the plugin `file`, which stays loaded. Null, with a reason: it is
// nowhere, it cannot be loaded, or it is not of this version.
template <class Table>
const Table *plugin_table(const char *file, const char *symbol, uint32_t abi, std::string &reason) {
  reason = std::string{file} + " is nowhere";
  for (const auto &path : plugin_paths(file)) {
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0)
      continue;
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reason = dlerror();
      continue;
    }
    auto const entry = reinterpret_cast<const Table *(*)()>(dlsym(handle, symbol));
    const Table *const found = entry != nullptr ? entry() : nullptr;
    if (found != nullptr && found->abi == abi &&
        std::strcmp(found->version, TND_VERSION_STRING) == 0)
      return found;
    reason = path + " is not of version " TND_VERSION_STRING;
    return nullptr;
  }
  return nullptr;
}

}  // namespace tanada::port
