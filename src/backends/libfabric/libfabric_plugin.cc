// backends/libfabric/libfabric_plugin.cc: the one symbol of libtanada_fabric.so.
#include <tanada/version.h>

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "backends/libfabric/libfabric_setup.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::port {
namespace {

status open(const fabric_request &wanted, std::unique_ptr<fabric_endpoint> &made,
            std::string &message) {
  libfabric_options options;
  options.provider = wanted.provider;
  options.node = wanted.node;
  options.cuda = wanted.cuda;
  options.depth = wanted.depth;
  libfabric_prepare({.provider = wanted.provider, .alone = wanted.alone});
  auto opened = libfabric_endpoint_open(options);
  if (!opened.ok()) {
    message = last_message();
    return opened.error();
  }
  made = std::move(opened).value();
  return status::ok;
}

constexpr fabric_plugin plugin{
    .abi = fabric_plugin_abi, .version = TND_VERSION_STRING, .open = open};

}  // namespace
}  // namespace tanada::port

extern "C" __attribute__((visibility("default"))) const tanada::port::fabric_plugin *
tnd_fabric_plugin() {
  return &tanada::port::plugin;
}
