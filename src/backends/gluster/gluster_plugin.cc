// backends/gluster/gluster_plugin.cc: the one symbol of libtanada_store_gluster.so.
#include <tanada/version.h>

#include "backends/gluster/gluster_engine.hpp"

namespace tanada::port {
namespace {

status engine_create(const store_plugin_host &host, std::shared_ptr<blocking_engine> &engine,
                     std::string &) {
  engine = std::make_shared<gluster_engine>(host);
  return status::ok;
}

constexpr store_plugin plugin{.abi = store_plugin_abi,
                              .version = TND_VERSION_STRING,
                              .scheme = "gluster",
                              .engine_create = engine_create};

}  // namespace
}  // namespace tanada::port

extern "C" __attribute__((visibility("default"))) const tanada::port::store_plugin *
tnd_store_plugin() {
  return &tanada::port::plugin;
}
