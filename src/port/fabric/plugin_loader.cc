#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstring>

#include "base/log.hpp"
#include "port/fabric/plugin.hpp"
#include "port/machine/plugin_paths.hpp"

namespace tanada::port {
namespace {

constexpr const char *file_name = "libtanada_fabric.so";

const fabric_plugin *load(std::string &reason) {
  reason = std::string{file_name} + " is nowhere";
  for (const auto &path : plugin_paths(file_name)) {
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0) continue;
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reason = dlerror();
      continue;
    }
    auto const entry = reinterpret_cast<fabric_plugin_entry>(dlsym(handle, fabric_plugin_symbol));
    const fabric_plugin *const found = entry != nullptr ? entry() : nullptr;
    if (found != nullptr && found->abi == fabric_plugin_abi && std::strcmp(found->version, TND_VERSION_STRING) == 0) return found;
    reason = path + " is not of version " TND_VERSION_STRING;
    return nullptr;
  }
  return nullptr;
}

}  // namespace

result<std::unique_ptr<fabric_endpoint>> fabric_open(const fabric_request &wanted) {
  std::string message;
  const fabric_plugin *const plugin = load(message);
  if (plugin == nullptr) {
    return fail(status::no_plugin, "a fabric needs libfabric1 (apt-get install libfabric1) and the plugin %s: %s", file_name,
                message.c_str());
  }
  std::unique_ptr<fabric_endpoint> made;
  if (status const code = plugin->open(wanted, made, message); code != status::ok) {
    return fail(code, "fabric %s: %s", wanted.provider.c_str(), message.c_str());
  }
  return made;
}

}  // namespace tanada::port
