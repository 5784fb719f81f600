#include "port/store/registry.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "base/log.hpp"
#include "port/store/file_store.hpp"
#include "port/store/mem_store.hpp"
#include "port/store/plugin_loader.hpp"

namespace tanada::port {
namespace {

struct known_store {
  std::string_view scheme;
  result<std::unique_ptr<store>> (*open)();
};

result<std::unique_ptr<store>> gfarm_open() {
  return plugin_store_open({.scheme = "gfarm",
                            .file = "libtanada_store_gfarm.so",
                            .need = "gfarm:// needs libgfarm1 (apt-get install libgfarm1) and the plugin "
                                    "libtanada_store_gfarm.so"});
}

result<std::unique_ptr<store>> gluster_open() {
  return fail(status::no_plugin, "gluster:// needs libglusterfs0 and a plugin that is not in this release");
}

result<std::unique_ptr<store>> pool_open() {
  return fail(status::no_plugin, "pool:// needs the pool's client, which is not in this release");
}

constexpr std::array<known_store, 5> known_stores = {{{"file", file_store_open},
                                                      {"mem", mem_store_open},
                                                      {"gfarm", gfarm_open},
                                                      {"gluster", gluster_open},
                                                      {"pool", pool_open}}};

bool scheme_ok(std::string_view scheme) noexcept {
  auto const letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (scheme.empty() || !letter(scheme[0])) return false;
  return std::all_of(scheme.begin(), scheme.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

}  // namespace

result<std::string> url_scheme(std::string_view url) {
  if (url.empty()) return fail(status::invalid, "an empty URL");
  size_t const mark = url.find("://");
  size_t const slash = url.find('/');
  if (mark == std::string_view::npos || slash != mark + 1) return std::string{"file"};
  auto const scheme = url.substr(0, mark);
  if (!scheme_ok(scheme)) {
    return fail(status::invalid, "%.*s: \"%.*s\" is no URL scheme (lower-case letters, digits, + - .)",
                int(url.size()), url.data(), int(scheme.size()), scheme.data());
  }
  return std::string{scheme};
}

struct store_registry::state {
  std::mutex mutex;  // held while a store opens: two threads never open it twice
  std::vector<std::unique_ptr<store>> stores;
  std::vector<std::unique_ptr<store>> replaced;  // somebody may still hold them
  std::optional<device_window> window;
  bool compatible_too = false;
};

store_registry::store_registry() : state_{std::make_unique<state>()} {}
store_registry::~store_registry() = default;

result<store *> store_registry::find(std::string_view url) {
  auto scheme = url_scheme(url);
  if (!scheme.ok()) return scheme.error();
  std::lock_guard lock{state_->mutex};
  for (const auto &instance : state_->stores) {
    if (instance->scheme() == scheme.value()) return instance.get();
  }
  for (const auto &known : known_stores) {
    if (known.scheme != scheme.value()) continue;
    auto opened = known.open();
    if (!opened.ok()) return opened.error();
    if (state_->window) opened.value()->attach(*state_->window, state_->compatible_too);
    state_->stores.push_back(std::move(opened).value());
    return state_->stores.back().get();
  }
  std::string list;
  for (const auto &known : known_stores) list += (list.empty() ? "" : ", ") + std::string{known.scheme};
  return fail(status::invalid, "%.*s: no store has the scheme %s; known are %s", int(url.size()), url.data(),
              scheme.value().c_str(), list.c_str());
}

void store_registry::attach(const device_window &window, bool compatible_too) {
  std::lock_guard lock{state_->mutex};
  state_->window = window;
  state_->compatible_too = compatible_too;
  for (const auto &present : state_->stores) present->attach(window, compatible_too);
}

void store_registry::add(std::unique_ptr<store> instance) {
  std::lock_guard lock{state_->mutex};
  if (state_->window) instance->attach(*state_->window, state_->compatible_too);
  for (auto &present : state_->stores) {
    if (present->scheme() != instance->scheme()) continue;
    state_->replaced.push_back(std::exchange(present, std::move(instance)));
    return;
  }
  state_->stores.push_back(std::move(instance));
}

}  // namespace tanada::port
