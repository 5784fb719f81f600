// backends/gfarm/gfarm_plugin.cc: the one symbol of libtanada_store_gfarm.so.
#include <tanada/version.h>

#include "backends/gfarm/gfarm_engine.hpp"

namespace tanada::port {
namespace {

status engine_create(const store_plugin_host &host, std::shared_ptr<blocking_engine> &engine,
                     std::string &) {
  host.log(1, (std::string{"gfarm: libgfarm "} + gfarm_version()).c_str());
  engine = std::make_shared<gfarm_engine>(host);
  return status::ok;
}

constexpr store_plugin plugin{.abi = store_plugin_abi,
                              .version = TND_VERSION_STRING,
                              .scheme = "gfarm",
                              .engine_create = engine_create};

}  // namespace
}  // namespace tanada::port

extern "C" __attribute__((visibility("default"))) const tanada::port::store_plugin *
tnd_store_plugin() {
  return &tanada::port::plugin;
}
