// products/pool/path_name.hpp: the names of paths in commands, metrics and the page.
#pragma once

#include <tanada/pool.h>

#include <iterator>

namespace tanada::pool {

// "tcp", "rdma" and so on; "none", or "unknown" for a number that is not a path.
inline const char *path_name(uint32_t path) noexcept {
  static constexpr const char *names[] = {
      "shared-memory", "unix", "tcp", "rdma", "gpu-direct", "fabric"};
  static_assert(std::size(names) == TND_POOL_PATH_COUNT);
  return path < std::size(names) ? names[path] : path == TND_POOL_PATH_NONE ? "none" : "unknown";
}

}  // namespace tanada::pool
