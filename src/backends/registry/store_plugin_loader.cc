// backends/registry/store_plugin_loader.cc: loads stores from plugins.
#include "backends/registry/store_plugin_loader.hpp"

#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstring>

#include "backends/file/local_engine.hpp"
#include "core/base/log.hpp"
#include "seams/os/plugin_paths.hpp"

namespace tanada::backends {
namespace {

void log_for_plugin(int level, const char *text) {
  log(level >= 0 && level <= 3 ? log_level(level) : log_level::error, "{}", text);
}

// Only the first existing candidate is tried, so that its error is reported and not the absence of
// the next.
void *load(const char *file, std::string &reason) {
  for (const auto &path : seams::plugin_paths(file)) {
    bool const plain = path.find('/') == std::string::npos;
    if (!plain && access(path.c_str(), F_OK) != 0)
      continue;
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return handle;
    reason = dlerror();
    return nullptr;
  }
  return nullptr;
}

// Returns null and sets `reason` if the plugin does not exist or is of another version.
const seams::store_plugin *find_plugin(const plugin_name &name, std::string &reason) {
  reason = std::string{name.file} + " was not found";
  void *const handle = load(name.file, reason);
  if (handle == nullptr)
    return nullptr;
  auto const entry =
      reinterpret_cast<seams::store_plugin_entry>(dlsym(handle, seams::store_plugin_symbol));
  const seams::store_plugin *const plugin = entry != nullptr ? entry() : nullptr;
  bool const is_compatible = plugin != nullptr && plugin->abi == seams::store_plugin_abi &&
                             std::strcmp(plugin->version, TND_VERSION_STRING) == 0 &&
                             std::strcmp(plugin->scheme, name.scheme) == 0;
  if (is_compatible)
    return plugin;
  reason = "the plugin found is not of version " TND_VERSION_STRING;
  return nullptr;
}

}  // namespace

std::string plugin_store_error(const plugin_name &name) {
  std::string reason;
  return find_plugin(name, reason) != nullptr ? std::string{} : reason;
}

result<std::unique_ptr<seams::store>> plugin_store_open(const plugin_name &name) {
  std::string reason;
  const seams::store_plugin *const plugin = find_plugin(name, reason);
  if (plugin == nullptr)
    return fail(status::no_plugin, "{}: {}", name.requirement, reason);
  static constexpr seams::store_plugin_host host{.log = log_for_plugin};
  std::shared_ptr<seams::blocking_engine> engine;
  if (auto const code = plugin->engine_create(host, engine, reason); code != status::ok) {
    return fail(code, "{}: {}", name.requirement, reason);
  }
  auto settings = ring_settings::from_environment();
  if (!settings.ok())
    return settings.error();
  auto local = std::make_shared<local_engine>(std::move(engine), settings.value().direct);
  return ring_store_create(std::move(local), settings.value().ring);
}

}  // namespace tanada::backends
