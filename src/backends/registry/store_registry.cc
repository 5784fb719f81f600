#include "backends/registry/store_registry.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "backends/file/file_store.hpp"
#include "backends/mem/mem_store.hpp"
#include "backends/registry/store_plugin_loader.hpp"
#include "core/base/log.hpp"
#include "seams/store/store_url.hpp"
#include "core/base/message.hpp"
#include "core/base/mutex.hpp"

namespace tanada::port {
namespace {

struct known_store {
  std::string_view scheme;
  result<std::unique_ptr<store>> (*open)();
  bool at_once = false;  // open waits for nothing, nor does attach
};

result<std::unique_ptr<store>> gfarm_open() {
  return plugin_store_open(
      {.scheme = "gfarm",
       .file = "libtanada_store_gfarm.so",
       .need = "gfarm:// needs libgfarm1 (apt-get install libgfarm1) and the plugin "
               "libtanada_store_gfarm.so"});
}

result<std::unique_ptr<store>> gluster_open() {
  return plugin_store_open(
      {.scheme = "gluster",
       .file = "libtanada_store_gluster.so",
       .need = "gluster:// needs libgfapi0 (apt-get install libgfapi0) and the plugin "
               "libtanada_store_gluster.so"});
}

result<std::unique_ptr<store>> pool_open() {
  return plugin_store_open(
      {.scheme = "pool",
       .file = "libtanada_store_pool.so",
       .need =
           "pool:// needs the plugin libtanada_store_pool.so, which is built with the library"});
}

constexpr std::array<known_store, 5> known_stores = {{{"file", file_store_open},
                                                      {"mem", mem_store_open, true},
                                                      {"gfarm", gfarm_open},
                                                      {"gluster", gluster_open},
                                                      {"pool", pool_open}}};

}  // namespace

struct store_registry::state {
  std::array<tanada::mutex, known_stores.size()>
      opening;          // one a store, held while it opens: nobody opens it twice
  tanada::mutex mutex;  // guards the rest, for a moment; taken last
  std::vector<std::unique_ptr<store>> stores;
  std::vector<std::unique_ptr<store>> replaced;  // somebody may still hold them
  std::optional<device_window> window;
  bool compatible_too = false;
  std::set<std::string, std::less<>> unknown_urls;  // those that the log has a line for

  // True: the log gets the line of this URL.
  bool is_new_unknown(std::string_view url) {
    lock_guard const lock{mutex};
    if (unknown_urls.size() >= unknown_url_count_max || !unknown_urls.emplace(url).second)
      return false;
    if (unknown_urls.size() == unknown_url_count_max) {
      log(log_level::warning, "%zu URLs have no store: more of them are not logged",
          unknown_url_count_max);
    }
    return true;
  }

  // It may take long: without the lock.
  void attach_to(store &opened) {
    unique_lock lock{mutex};
    std::optional<device_window> const where = window;
    bool const compatible = compatible_too;
    lock.unlock();
    if (where)
      opened.attach(*where, compatible);
  }

  store *present(std::string_view scheme) {
    lock_guard const lock{mutex};
    for (const auto &instance : stores)
      if (instance->scheme() == scheme)
        return instance.get();
    return nullptr;
  }
};

store_registry::store_registry() : state_{std::make_unique<state>()} {}
store_registry::~store_registry() = default;

result<store *> store_registry::find_open(std::string_view url) {
  message_deferral deferral;
  auto scheme = url_scheme(url);
  if (!scheme.ok()) {
    if (!state_->is_new_unknown(url))
      (void)deferral.take(scheme.error());
    return scheme.error();
  }
  store *const there = state_->present(scheme.value());
  if (there != nullptr)
    return there;
  auto const known = std::find_if(known_stores.begin(), known_stores.end(),
                                  [&](auto &each) { return each.scheme == scheme.value(); });
  return known != known_stores.end() && known->at_once ? find(url) : there;
}

result<store *> store_registry::find(std::string_view url) {
  message_deferral deferral;
  auto found = find_or_open(url);
  if (!found.ok() && !state_->is_new_unknown(url))
    (void)deferral.take(found.error());
  return found;
}

result<store *> store_registry::find_or_open(std::string_view url) {
  auto scheme = url_scheme(url);
  if (!scheme.ok())
    return scheme.error();
  if (store *const there = state_->present(scheme.value()); there != nullptr)
    return there;
  for (size_t i = 0; i < known_stores.size(); i++) {
    if (known_stores[i].scheme != scheme.value())
      continue;
    lock_guard const opening{state_->opening[i]};
    if (store *const there = state_->present(scheme.value()); there != nullptr)
      return there;
    auto opened = known_stores[i].open();
    if (!opened.ok())
      return opened.error();
    state_->attach_to(*opened.value());
    lock_guard const lock{state_->mutex};
    state_->stores.push_back(std::move(opened).value());
    return state_->stores.back().get();
  }
  std::string list;
  for (const auto &known : known_stores)
    list += (list.empty() ? "" : ", ") + std::string{known.scheme};
  return fail(status::invalid, "%.*s: no store has the scheme %s; known are %s", int(url.size()),
              url.data(), scheme.value().c_str(), list.c_str());
}

void store_registry::attach(const device_window &window, bool compatible_too) {
  lock_guard const lock{state_->mutex};
  state_->window = window;
  state_->compatible_too = compatible_too;
  for (const auto &present : state_->stores)
    present->attach(window, compatible_too);
}

void store_registry::add(std::unique_ptr<store> instance) {
  state_->attach_to(*instance);
  lock_guard const lock{state_->mutex};
  for (auto &present : state_->stores) {
    if (present->scheme() != instance->scheme())
      continue;
    state_->replaced.push_back(std::exchange(present, std::move(instance)));
    return;
  }
  state_->stores.push_back(std::move(instance));
}

}  // namespace tanada::port
