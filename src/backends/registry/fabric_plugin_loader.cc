// backends/registry/fabric_plugin_loader.cc: loads the libfabric plugin.
#include "backends/registry/plugin_table.hpp"
#include "core/base/log.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::seams {
namespace {

constexpr const char *fabric_file_name = "libtanada_fabric.so";

}  // namespace

result<std::unique_ptr<fabric_endpoint>> fabric_open(const fabric_request &request) {
  std::string message;
  const fabric_plugin *const plugin = backends::plugin_table<fabric_plugin>(
      fabric_file_name, fabric_plugin_symbol, fabric_plugin_abi, message);
  if (plugin == nullptr) {
    return fail(status::no_plugin,
                "a fabric needs libfabric1 (apt-get install libfabric1) and the plugin {} (package "
                "libtanada-fabric, or make install): {}",
                fabric_file_name,
                message);
  }
  std::unique_ptr<fabric_endpoint> endpoint;
  if (status const code = plugin->open(request, endpoint, message); code != status::ok) {
    return fail(code, "fabric {}: {}", request.provider, message);
  }
  return endpoint;
}

}  // namespace tanada::seams
