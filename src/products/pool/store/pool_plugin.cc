// products/pool/store/pool_plugin.cc: the only symbol of libtanada_store_pool.so.
#include <tanada/version.h>

#include "products/pool/store/pool_engine.hpp"

namespace tanada::pool {
namespace {

status engine_create(const seams::store_plugin_host &host,
                     std::shared_ptr<seams::blocking_engine> &engine,
                     std::string &) {
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
