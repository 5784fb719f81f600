// backends/registry/store_registry.cc: the stores of an instance, opened by the scheme of a URL.
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

namespace tanada::backends {
namespace {

struct known_store {
  std::string_view scheme;
  result<std::unique_ptr<seams::store>> (*open)();
  bool opens_immediately = false;  // neither open nor attach blocks
};

result<std::unique_ptr<seams::store>> gfarm_open() {
  return plugin_store_open(
      {.scheme = "gfarm",
       .file = "libtanada_store_gfarm.so",
       .requirement = "gfarm:// needs libgfarm1 (apt-get install libgfarm1) and the plugin "
                      "libtanada_store_gfarm.so"});
}

result<std::unique_ptr<seams::store>> gluster_open() {
  return plugin_store_open(
      {.scheme = "gluster",
       .file = "libtanada_store_gluster.so",
       .requirement = "gluster:// needs libgfapi0 (apt-get install libgfapi0) and the plugin "
                      "libtanada_store_gluster.so"});
}

result<std::unique_ptr<seams::store>> pool_open() {
  return plugin_store_open(
      {.scheme = "pool",
       .file = "libtanada_store_pool.so",
       .requirement =
           "pool:// needs the plugin libtanada_store_pool.so, which is built with the library"});
}

constexpr std::array<known_store, 5> known_stores = {{{"file", file_store_open},
                                                      {"mem", mem_store_open, true},
                                                      {"gfarm", gfarm_open},
                                                      {"gluster", gluster_open},
                                                      {"pool", pool_open}}};

std::string known_schemes() {
  std::string list;
  for (const auto &known : known_stores)
    list += (list.empty() ? "" : ", ") + std::string{known.scheme};
  return list;
}

}  // namespace

struct store_registry::state {
  std::array<tanada::mutex, known_stores.size()>
      opening;          // one for each store, held while it opens, so that it opens once
  tanada::mutex mutex;  // held briefly; taken last
  std::vector<std::unique_ptr<seams::store>> stores TND_GUARDED_BY(mutex);
  // Callers may still use them.
  std::vector<std::unique_ptr<seams::store>> replaced TND_GUARDED_BY(mutex);
  std::optional<seams::device_window> window TND_GUARDED_BY(mutex);
  bool compatible_too TND_GUARDED_BY(mutex) = false;
  std::set<std::string, std::less<>> unknown_urls TND_GUARDED_BY(mutex);  // logged once

  // Returns true if the URL should be logged.
  bool record_unknown_url(std::string_view url) {
    lock_guard const lock{mutex};
    if (unknown_urls.size() >= unknown_url_count_max || !unknown_urls.emplace(url).second)
      return false;
    if (unknown_urls.size() == unknown_url_count_max) {
      log(log_level::warning,
          "{} URLs have no store; further ones are not logged",
          unknown_url_count_max);
    }
    return true;
  }

  // May take long, so it runs without the lock.
  void attach_to(seams::store &opened) {
    unique_lock lock{mutex};
    std::optional<seams::device_window> const current_window = window;
    bool const compatible = compatible_too;
    lock.unlock();
    if (current_window)
      opened.attach(*current_window, compatible);
  }

  seams::store *find_open_store(std::string_view scheme) {
    lock_guard const lock{mutex};
    for (const auto &instance : stores)
      if (instance->scheme() == scheme)
        return instance.get();
    return nullptr;
  }
};

store_registry::store_registry() : state_{std::make_unique<state>()} {}
store_registry::~store_registry() = default;

result<seams::store *> store_registry::find_open(std::string_view url) {
  message_deferral deferral;
  auto scheme = seams::url_scheme(url);
  if (!scheme.ok()) {
    if (!state_->record_unknown_url(url))
      (void)deferral.take(scheme.error());
    return scheme.error();
  }
  seams::store *const open_store = state_->find_open_store(scheme.value());
  if (open_store != nullptr)
    return open_store;
  auto const known = std::find_if(known_stores.begin(), known_stores.end(), [&](auto &candidate) {
    return candidate.scheme == scheme.value();
  });
  return known != known_stores.end() && known->opens_immediately ? find(url) : open_store;
}

result<seams::store *> store_registry::find(std::string_view url) {
  message_deferral deferral;
  auto opened = find_or_open(url);
  if (!opened.ok() && !state_->record_unknown_url(url))
    (void)deferral.take(opened.error());
  return opened;
}

result<seams::store *> store_registry::find_or_open(std::string_view url) {
  auto scheme = seams::url_scheme(url);
  if (!scheme.ok())
    return scheme.error();
  if (seams::store *const open_store = state_->find_open_store(scheme.value());
      open_store != nullptr)
    return open_store;
  for (size_t i = 0; i < known_stores.size(); i++) {
    if (known_stores[i].scheme != scheme.value())
      continue;
    lock_guard const opening{state_->opening[i]};
    if (seams::store *const open_store = state_->find_open_store(scheme.value());
        open_store != nullptr)
      return open_store;
    auto opened = known_stores[i].open();
    if (!opened.ok())
      return opened.error();
    TND_ASSERT(opened.value() != nullptr);
    state_->attach_to(*opened.value());
    lock_guard const lock{state_->mutex};
    state_->stores.push_back(std::move(opened).value());
    return state_->stores.back().get();
  }
  return fail(status::invalid,
              "{}: no store has the scheme {}; known schemes: {}",
              url,
              scheme.value(),
              known_schemes());
}

void store_registry::attach(const seams::device_window &window, bool compatible_too) {
  lock_guard const lock{state_->mutex};
  state_->window = window;
  state_->compatible_too = compatible_too;
  for (const auto &open_store : state_->stores)
    open_store->attach(window, compatible_too);
}

void store_registry::add(std::unique_ptr<seams::store> instance) {
  TND_ASSERT(instance != nullptr);
  state_->attach_to(*instance);
  lock_guard const lock{state_->mutex};
  for (auto &open_store : state_->stores) {
    if (open_store->scheme() != instance->scheme())
      continue;
    state_->replaced.push_back(std::exchange(open_store, std::move(instance)));
    return;
  }
  state_->stores.push_back(std::move(instance));
}

}  // namespace tanada::backends
