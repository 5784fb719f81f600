// bench/shmemg/own_device.hpp: for programs of this library.
#pragma once

#include <tanada/device/detail/simt/launch.hpp>

#include <cstdlib>

namespace own_device {

/// Before the library starts: each process's device by its rank, as PMIx's launchers give it.
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
