// examples/fdtd/snapshot_target.hpp: the host's targets for snapshots: objects of a pool or files
// in a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace fdtd {

/// Used by one thread at a time. Every call is bounded by the pool's timeout, or by the file system
/// for a file.
class snapshot_target {
 public:
  virtual ~snapshot_target() = default;
  /// True: put() takes kernels' memory; false: host memory.
  virtual bool takes_device_memory() const = 0;
  /// Creates `name` of `size` bytes, completely or not at all. Throws std::runtime_error with the
  /// location and the reason.
  virtual void put(const std::string &name, const void *bytes, std::uint64_t size) = 0;
  /// Reads `name`, which has `size` bytes, and compares it with its checksum if it has one. Throws
  /// as put() does.
  virtual void get(const std::string &name, void *bytes, std::uint64_t size) = 0;
};

/// Whether the host writes `url` itself: pool://, file:// or a path. Other URLs go through kernels
/// and gfile.
bool is_host_target(const std::string &url);

/// Connects to a pool, where every snapshot gets a checksum, or opens a folder. `on_gpu`: kernels'
/// memory is a GPU's. Throws std::runtime_error.
std::unique_ptr<snapshot_target> open_target(const std::string &url, bool on_gpu);

}  // namespace fdtd
