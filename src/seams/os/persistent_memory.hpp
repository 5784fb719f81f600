// seams/os/persistent_memory.hpp: the seam to files in persistent memory (DAX), whose bytes are
// durable once their cache lines have been written back, without a system call. Implementations:
// backends/pmem, by libpmem, and sim::persistent_memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/result.hpp"

namespace tanada::seams {

// A file that is mapped as a whole. Thread-safe. Destroying it unmaps the file.
class persistent_mapping {
 public:
  virtual ~persistent_mapping() = default;

  virtual std::byte *addr() const noexcept = 0;
  virtual uint64_t size() const noexcept = 0;  // bytes of the file

  // The unit in which a part can be unmapped, or mapped by another process: offsets and sizes of
  // parts are multiples of it. The page size for a file, the alignment of the device for a device.
  virtual uint64_t granule() const noexcept = 0;

  // Bytes of this range that any process has stored before become durable. They are durable when a
  // later drain() of the same thread returns.
  virtual void flush(const std::byte *begin, uint64_t size) = 0;
  virtual void drain() = 0;
};

class persistent_memory {
 public:
  virtual ~persistent_memory() = default;

  // Whether the descriptor is open for a device of persistent memory. Its size is fixed, and the
  // system cannot sync it.
  virtual bool is_device(int descriptor) const = 0;

  // Map the whole file or device that the descriptor is open for. not_supported, with a message: it
  // is not in persistent memory, or this build has no support for it; its bytes become durable only
  // by system calls. Other errors, with a message, are those of the system's mmap().
  virtual result<std::unique_ptr<persistent_mapping>> map(int descriptor) = 0;
};

}  // namespace tanada::seams
