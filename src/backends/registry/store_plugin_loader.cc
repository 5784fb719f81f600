#include "backends/registry/store_plugin_loader.hpp"

#include <dlfcn.h>
#include <tanada/version.h>
#include <unistd.h>

#include <cstring>

#include "backends/file/local_engine.hpp"
#include "core/base/log.hpp"
#include "seams/os/plugin_paths.hpp"

namespace tanada::port {
namespace {

void log_for_plugin(int level, const char *text) {
  log(level >= 0 && level <= 3 ? log_level(level) : log_level::error, "%s", text);
}

// The first candidate that is there decides, so that its own trouble is reported and not the next
// one's absence.
void *load(const char *file, std::string &reason) {
  for (const auto &path : plugin_paths(file)) {
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

// Null, with a reason, when it is not there or not of this version.
const store_plugin *find_plugin(const plugin_name &name, std::string &reason) {
  reason = std::string{name.file} + " is nowhere";
  void *const handle = load(name.file, reason);
  if (handle == nullptr)
    return nullptr;
  auto const entry = reinterpret_cast<store_plugin_entry>(dlsym(handle, store_plugin_symbol));
  const store_plugin *const plugin = entry != nullptr ? entry() : nullptr;
  bool const fits = plugin != nullptr && plugin->abi == store_plugin_abi &&
                    std::strcmp(plugin->version, TND_VERSION_STRING) == 0 &&
                    std::strcmp(plugin->scheme, name.scheme) == 0;
  if (fits)
    return plugin;
  reason = "the one found is not of version " TND_VERSION_STRING;
  return nullptr;
}

}  // namespace

std::string plugin_store_trouble(const plugin_name &name) {
  std::string reason;
  return find_plugin(name, reason) != nullptr ? std::string{} : reason;
}

result<std::unique_ptr<store>> plugin_store_open(const plugin_name &name) {
  std::string reason;
  const store_plugin *const plugin = find_plugin(name, reason);
  if (plugin == nullptr)
    return fail(status::no_plugin, "%s: %s", name.need, reason.c_str());
  static constexpr store_plugin_host host{.log = log_for_plugin};
  std::shared_ptr<blocking_engine> engine;
  if (auto const code = plugin->engine_create(host, engine, reason); code != status::ok) {
    return fail(code, "%s: %s", name.need, reason.c_str());
  }
  auto settings = ring_settings::of_environment();
  if (!settings.ok())
    return settings.error();
  auto local = std::make_shared<local_engine>(std::move(engine), settings.value().direct);
  return ring_store_create(std::move(local), settings.value().ring);
}

}  // namespace tanada::port
