// bench/shmemg/own_device.hpp: the device of each process, for programs of Tanada.
#pragma once

#include <tanada/device/detail/simt/launch.hpp>

#include <cstdlib>

namespace own_device {

/// Before the library starts: chooses each process's device by its rank, as launchers with PMIx
/// report it.
inline void choose() {
#if TND_SIMT_CUDA
  int devices = 0;
  const char *const rank = std::getenv("PMIX_RANK");
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    static_cast<void>(cudaSetDevice((rank == nullptr ? 0 : std::atoi(rank)) % devices));
  }
#endif
}

}  // namespace own_device
