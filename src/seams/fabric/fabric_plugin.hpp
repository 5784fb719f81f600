// seams/fabric/fabric_plugin.hpp: everything that crosses between the core and libtanada_fabric.so:
// one versioned table.
#pragma once

#include <memory>
#include <string>

#include "seams/fabric/fabric.hpp"

namespace tanada::port {

struct fabric_request {
  std::string provider;  // as libfabric names it: "o2g", "tcp;ofi_rxm", "shm", "verbs;ofi_rxm"
  std::string node =
      {};  // address, host name or name of the interface to use; empty: the provider's choice
  bool cuda = false;     // ask for memory of GPUs
  uint32_t depth = 256;  // operations out at most
  bool alone = false;    // no other provider will be asked for in this process: the first start of
                         // libfabric is quicker
};

// Built with the core by the same compiler, hence C++ types; `version` makes sure of it.
struct fabric_plugin {
  uint32_t abi;         // fabric_plugin_abi
  const char *version;  // TND_VERSION_STRING
  // On failure `message` says why.
  status (*open)(const fabric_request &wanted, std::unique_ptr<fabric_endpoint> &made,
                 std::string &message);
};

inline constexpr uint32_t fabric_plugin_abi = 2;
inline constexpr const char *fabric_plugin_symbol =
    "tnd_fabric_plugin";  // extern "C" const fabric_plugin *()
using fabric_plugin_entry = const fabric_plugin *(*)();

// An endpoint, by the plugin, which is loaded at the first call and stays. no_plugin: it or
// libfabric is missing, and the message names the package. What libfabric says, with a message.
result<std::unique_ptr<fabric_endpoint>> fabric_open(const fabric_request &wanted);

}  // namespace tanada::port
