// seams/fabric/fabric_plugin.hpp: the versioned table through which the core uses
// libtanada_fabric.so.
#pragma once

#include <memory>
#include <string>

#include "seams/fabric/fabric.hpp"

namespace tanada::seams {

struct fabric_request {
  std::string provider;  // as libfabric names it: "o2g", "tcp;ofi_rxm", "shm", "verbs;ofi_rxm"
  // Address, host name or name of the interface to use. Empty: the provider chooses.
  std::string node = {};
  bool cuda = false;     // support GPU memory
  uint32_t depth = 256;  // most outstanding operations
  // This process will use no other provider, which makes the first start of libfabric faster.
  bool is_only_provider = false;
};

// Built with the core by the same compiler, hence C++ types. `version` verifies that.
struct fabric_plugin {
  uint32_t abi;         // fabric_plugin_abi
  const char *version;  // TND_VERSION_STRING
  // On failure `message` has the reason.
  status (*open)(const fabric_request &request,
                 std::unique_ptr<fabric_endpoint> &endpoint,
                 std::string &message);
};

// Read before the version is known.
static_assert(offsetof(fabric_plugin, abi) == 0 && offsetof(fabric_plugin, version) == 8);

inline constexpr uint32_t fabric_plugin_abi = 2;
inline constexpr const char *fabric_plugin_symbol =
    "tnd_fabric_plugin";  // extern "C" const fabric_plugin *()
using fabric_plugin_entry = const fabric_plugin *(*)();

// An endpoint, through the plugin, which is loaded at the first call and stays loaded. no_plugin:
// the plugin or libfabric is missing, and the message names the package. Otherwise libfabric's
// error, with a message.
result<std::unique_ptr<fabric_endpoint>> fabric_open(const fabric_request &request);

}  // namespace tanada::seams
