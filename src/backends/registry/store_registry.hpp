// backends/registry/store_registry.hpp: from a URL to the store behind it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "seams/store/store.hpp"

namespace tanada::port {

// The stores of one instance, opened when their scheme is first used. Thread-safe.
class store_registry {
 public:
  store_registry();
  ~store_registry();

  // The store behind the URL if it is open or opens at once, else null. Waits for nothing, so that
  // callers who hold a lock may ask. invalid for a malformed URL.
  result<store *> find_open(std::string_view url);

  // The store behind the URL. It may load a plugin, which takes its time, but waits for no server:
  // stores connect in their own threads, at the first operation. invalid for a scheme nobody knows
  // (the message lists those known); no_plugin when its plugin or package is missing, with a
  // message that names the package to install. A missing plugin is looked for again at the next
  // call. The store lives as long as the registry.
  //
  // A URL without a store is logged once, however often it is looked up, and no more than
  // unknown_url_count_max of such URLs are. The message is the caller's each time.
  result<store *> find(std::string_view url);

  // For all stores, those there are and those to come: store::attach(). Before the first is found
  // by others.
  void attach(const device_window &window, bool compatible_too);

  // Put a store of the caller's in place, e.g. a simulated one. It replaces one of the same scheme.
  void add(std::unique_ptr<store> instance);

  static constexpr size_t unknown_url_count_max = 64;

 private:
  result<store *> find_or_open(std::string_view url);
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tanada::port
