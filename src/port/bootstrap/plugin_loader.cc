#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstring>

#include "base/log.hpp"
#include "port/bootstrap/plugin.hpp"
#include "port/machine/plugin_paths.hpp"

namespace tanada::port {
namespace {

constexpr const char *file_name = "libtanada_bootstrap_pmix.so";

const bootstrap_plugin *load(std::string &reason) {
  reason = std::string{file_name} + " is nowhere";
  for (const auto &path : plugin_paths(file_name)) {
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0) continue;
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reason = dlerror();
      continue;
    }
    auto const entry = reinterpret_cast<bootstrap_plugin_entry>(dlsym(handle, bootstrap_plugin_symbol));
    const bootstrap_plugin *const found = entry != nullptr ? entry() : nullptr;
    if (found != nullptr && found->abi == bootstrap_plugin_abi && std::strcmp(found->version, TND_VERSION_STRING) == 0) return found;
    reason = path + " is not of version " TND_VERSION_STRING;
    return nullptr;
  }
  return nullptr;
}

}  // namespace

result<std::unique_ptr<bootstrap>> bootstrap_pmix() {
  std::string message;
  const bootstrap_plugin *const plugin = load(message);
  if (plugin == nullptr) {
    return fail(status::no_plugin,
                "a launcher that speaks PMIx started this process: joining its job needs libpmix2 (apt-get install libpmix2; "
                "libpmix-dev to build) and the plugin %s: %s",
                file_name, message.c_str());
  }
  std::unique_ptr<bootstrap> made;
  if (status const code = plugin->open(made, message); code != status::ok) return fail(code, "PMIx: %s", message.c_str());
  return made;
}

}  // namespace tanada::port
