// products/pool/store/pool_plugin.cc: the only symbol of libtanada_store_pool.so.
#include <tanada/version.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/assert.hpp"
#include "products/pool/store/pool_engine.hpp"

namespace tanada {

// The library exports only its C functions, so the plugin has its own.
void assert_failed(const char *condition, const char *file, int line) noexcept {
  std::fprintf(stderr, "tanada: bug: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace tanada

namespace tanada::pool {
namespace {

status engine_create(const seams::store_plugin_host &host,
                     std::shared_ptr<seams::blocking_engine> &engine, std::string &) {
  engine = std::make_shared<pool_engine>(host);
  return status::ok;
}

constexpr seams::store_plugin plugin{.abi = seams::store_plugin_abi,
                                     .version = TND_VERSION_STRING,
                                     .scheme = "pool",
                                     .engine_create = engine_create};

}  // namespace
}  // namespace tanada::pool

extern "C" __attribute__((visibility("default"))) const tanada::seams::store_plugin *
tnd_store_plugin() {
  return &tanada::pool::plugin;
}
