// backends/libfabric/libfabric_endpoint.hpp: fabric_endpoint over libfabric,
// https://libfabric.org, 1.17 or newer. In the library tanada_fabric, which needs libfabric;
// nothing else of ours does.
#pragma once

#include <memory>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"
#include "seams/fabric/registration_cache.hpp"

namespace tanada::port {

struct libfabric_options {
  // As libfabric names it: "o2g" (ours), "tcp;ofi_rxm", "shm", "verbs;ofi_rxm"; any other that has
  // reliable datagram endpoints.
  std::string provider = "tcp;ofi_rxm";
  std::string node = {};           // address, host name or name of the interface to use; empty: the
                                   // provider's choice. Not for shm
  std::string service = {};        // port number; empty: any. Not for shm
  uint32_t depth = 256;            // operations out at most, 1 to fabric_depth_max
  size_t message_size_max = 4096;  // bytes, 64 to libfabric_message_size_cap
  bool cuda = false;  // ask for GPU memory (FI_HMEM); what came of it is in properties()
  registration_cache_limits cache{};
  clock *time = &monotonic_clock();  // outlives the endpoint
};

// What every provider we know takes without a second round trip: shm copies 4 KiB, rxm sends 16 KiB
// eagerly.
inline constexpr size_t libfabric_message_size_cap = 4096;

// The first call starts libfabric, which reads its environment variables (FI_*), as
// libfabric_setup.hpp says, of which two stay set, FI_AV_REMOVE_CLEANUP=1 and
// FI_MR_CACHE_MAX_COUNT=0: call it before threads that change the environment start. A program that
// uses libfabric itself before us sets them itself; without the second, keys of verbs outlive their
// regions. o2g is found when it is the first provider that is asked for, or libfabric_prepare()
// named it.
//
// no_plugin if libfabric has no such provider here, not_supported if it lacks what a
// fabric_endpoint needs, invalid for bad options, or what the system said; with a message each.
result<std::unique_ptr<fabric_endpoint>> libfabric_endpoint_open(const libfabric_options &options);

// Names of the providers on this machine that have reliable datagram endpoints with messages and
// RMA, sorted.
std::vector<std::string> libfabric_providers();

}  // namespace tanada::port
