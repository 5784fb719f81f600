// backends/registry/store_registry.hpp: finds the store of a URL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "seams/store/store.hpp"

namespace tanada::backends {

// The stores of one instance, opened when their scheme is first used. Thread-safe.
class store_registry {
 public:
  store_registry();
  ~store_registry();

  // The URL's store if it is open or opens without blocking, else null. Never blocks, so callers
  // may hold locks. invalid: malformed URL.
  result<seams::store *> find_open(std::string_view url);

  // The URL's store. May load a plugin, which takes time, but does not wait for a server: stores
  // connect in their own threads, at the first operation. invalid: unknown scheme; the message
  // lists the known ones. no_plugin: the plugin or a package is missing; the message names the
  // package to install. A missing plugin is searched again at the next call. The store lives as
  // long as the registry.
  //
  // A URL without a store is logged once, however often it is looked up, and at most
  // unknown_url_count_max such URLs are logged. The caller gets the message each time.
  result<seams::store *> find(std::string_view url);

  // Calls store::attach() for all open stores and those opened later. Call it before other threads
  // find a store.
  void attach(const seams::device_window &window, bool compatible_too);

  // Adds a store of the caller's, e.g. a simulated one. It replaces a store of the same scheme.
  void add(std::unique_ptr<seams::store> instance);

  static constexpr size_t unknown_url_count_max = 64;

 private:
  result<seams::store *> find_or_open(std::string_view url);
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tanada::backends
