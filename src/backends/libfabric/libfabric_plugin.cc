// backends/libfabric/libfabric_plugin.cc: the only exported symbol of libtanada_fabric.so.
#include <tanada/version.h>

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "backends/libfabric/libfabric_setup.hpp"
#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::backends {
namespace {

status open(const seams::fabric_request &request,
            std::unique_ptr<seams::fabric_endpoint> &endpoint,
            std::string &message) {
  libfabric_options options;
  options.provider = request.provider;
  options.node = request.node;
  options.cuda = request.cuda;
  options.depth = request.depth;
  message_silence const silence;  // the caller logs the message
  libfabric_prepare({.provider = request.provider, .is_exclusive = request.is_only_provider});
  auto opened = libfabric_endpoint_open(options);
  if (!opened.ok()) {
    message = last_message();
    return opened.error();
  }
  endpoint = std::move(opened).value();
  return status::ok;
}

constexpr seams::fabric_plugin plugin{
    .abi = seams::fabric_plugin_abi, .version = TND_VERSION_STRING, .open = open};

}  // namespace
}  // namespace tanada::backends

extern "C" __attribute__((visibility("default"))) const tanada::seams::fabric_plugin *
tnd_fabric_plugin() {
  return &tanada::backends::plugin;
}
