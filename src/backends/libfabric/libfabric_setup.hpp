// backends/libfabric/libfabric_setup.hpp: settings for libfabric, which reads its environment only
// once, at first use.
#pragma once

#include <string>

namespace tanada::backends {

struct libfabric_needs {
  std::string provider = {};  // the provider that will be requested
  // The process requests no other provider, so libfabric loads only this one. Debian's libfabric
  // has many providers, and one of them (psm) takes 0.1 s to report that it is unusable. A
  // FI_PROVIDER set by the user stays.
  bool is_exclusive = false;
};

// Has an effect only on the first call of a process, and only if the program has not used libfabric
// before. Opening an endpoint calls it. Sets FI_AV_REMOVE_CLEANUP=1 and FI_MR_CACHE_MAX_COUNT=0, on
// which the contract depends. For o2g, which is in a plugin folder, appends that folder to the
// user's FI_PROVIDER_PATH. Variables that only libfabric's initialization needs are restored
// afterwards, so child processes do not inherit them.
//
// Thread safety: libfabric reads the environment; no other thread may change it concurrently.
void libfabric_prepare(const libfabric_needs &needs);

}  // namespace tanada::backends
