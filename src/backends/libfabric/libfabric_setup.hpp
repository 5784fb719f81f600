// backends/libfabric/libfabric_setup.hpp: what libfabric must know before it is first used: it
// reads its environment once.
#pragma once

#include <string>

namespace tanada::port {

struct libfabric_needs {
  std::string provider = {};  // that will be asked for
  // No other will be, in this process: libfabric leaves the others out. Debian's is built with
  // many, and one of them alone (psm) takes 0.1 s to say that it cannot be used. A FI_PROVIDER of
  // the user's stays.
  bool alone = false;
};

// Counts once, with the first call of a process, and not if the program has used libfabric before;
// opening an endpoint calls it. Sets FI_AV_REMOVE_CLEANUP=1 and FI_MR_CACHE_MAX_COUNT=0, which the
// contract rests on. For o2g, which is ours and lies in one of the folders for plugins, that folder
// is put into FI_PROVIDER_PATH, behind those of the user's. What only libfabric's start needs is
// taken back afterwards: processes that this one starts do not inherit it.
//
// Thread safety: libfabric reads the environment; no other thread changes it meanwhile.
void libfabric_prepare(const libfabric_needs &needs);

}  // namespace tanada::port
