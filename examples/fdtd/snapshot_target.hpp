// fdtd/snapshot_target.hpp: where the host puts snapshots: objects of a pool or files of a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace fdtd {

/// One thread uses it at a time. Every call is bounded by the pool's timeout; that of a file by its
/// file system.
class snapshot_target {
 public:
  virtual ~snapshot_target() = default;
  /// True: put() takes kernels' memory; false: host memory.
  virtual bool takes_device_memory() const = 0;
  /// Make `name` of `size` bytes, as a whole or not at all. Throws std::runtime_error that says
  /// where and why.
  virtual void put(const std::string &name, const void *bytes, std::uint64_t size) = 0;
  /// Read `name`, which has `size` bytes, and compare it with its checksum if it has one. Throws as
  /// put().
  virtual void get(const std::string &name, void *bytes, std::uint64_t size) = 0;
};

/// Is `url` one that the host writes by itself: pool://, file:// or a path? Others go through
/// kernels and gfile.
bool is_host_target(const std::string &url);

/// Connect to a pool, where every snapshot gets a checksum, or find a folder. `on_gpu`: kernels'
/// memory is a GPU's. Throws std::runtime_error.
std::unique_ptr<snapshot_target> open_target(const std::string &url, bool on_gpu);

}  // namespace fdtd
