// backends/gluster/gluster_plugin.cc: the only exported symbol of libtanada_store_gluster.so.
#include <tanada/version.h>

#include "backends/gluster/gluster_engine.hpp"

namespace tanada::backends {
namespace {

status engine_create(const seams::store_plugin_host &host,
                     std::shared_ptr<seams::blocking_engine> &engine,
                     std::string &) {
  engine = std::make_shared<gluster_engine>(host);
  return status::ok;
}

constexpr seams::store_plugin plugin{.abi = seams::store_plugin_abi,
                                     .version = TND_VERSION_STRING,
                                     .scheme = "gluster",
                                     .engine_create = engine_create};

}  // namespace
}  // namespace tanada::backends

extern "C" __attribute__((visibility("default"))) const tanada::seams::store_plugin *
tnd_store_plugin() {
  return &tanada::backends::plugin;
}
