// backends/libfabric/libfabric_endpoint.hpp: fabric_endpoint over libfabric, https://libfabric.org,
// 1.17 or newer. It is in the library tanada_fabric, the only one that needs libfabric.
#pragma once

#include <memory>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"
#include "seams/fabric/registration_cache.hpp"

namespace tanada::backends {

struct libfabric_options {
  // The provider's name in libfabric: "o2g" (Tanada's), "tcp;ofi_rxm", "shm", "verbs;ofi_rxm", or
  // any other provider with reliable datagram endpoints.
  std::string provider = "tcp;ofi_rxm";
  std::string node = {};           // address, host name or interface name; empty: the provider's
                                   // choice. Ignored for shm
  std::string service = {};        // port number; empty: any. Ignored for shm
  uint32_t depth = 256;            // operations in flight, 1 to fabric_depth_max
  size_t message_size_max = 4096;  // bytes, 64 to libfabric_message_size_cap
  bool cuda = false;               // request GPU memory (FI_HMEM); properties() has the result
  seams::registration_cache_limits cache{};
  seams::clock *time = &seams::monotonic_clock();  // outlives the endpoint
};

// The size that every known provider sends without a second round trip: shm copies 4 KiB, and rxm
// sends 16 KiB eagerly.
inline constexpr size_t libfabric_message_size_cap = 4096;

// The first call initializes libfabric, which reads its environment variables (FI_*); see
// libfabric_setup.hpp. FI_AV_REMOVE_CLEANUP=1 and FI_MR_CACHE_MAX_COUNT=0 stay set. Call it before
// starting threads that change the environment. A program that uses libfabric before Tanada must
// set both itself: without the second, keys of verbs outlive their regions. o2g is found only if it
// is the first provider requested, or if libfabric_prepare() named it.
//
// no_plugin: libfabric has no such provider here. not_supported: the provider lacks a capability
// that fabric_endpoint needs. invalid: bad options. Other statuses are those of the system. Each
// sets a message.
result<std::unique_ptr<seams::fabric_endpoint>> libfabric_endpoint_open(
    const libfabric_options &options);

// The sorted names of this machine's providers that have reliable datagram endpoints with messages
// and RMA.
std::vector<std::string> libfabric_providers();

}  // namespace tanada::backends
