// seams/gpu/direct_files.hpp: files read into device memory with no copy in host memory.
// Implementations: cuFile (GPUDirect Storage) in the CUDA plugin, and the host executor's, whose
// device memory every system call reaches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.hpp"

namespace tanada::seams {

// unavailable: not at all. compatible: by the same calls, but a processor copies. direct: only the
// devices take part.
enum class direct_kind : uint8_t { unavailable, compatible, direct };

// What can be done for a file, and in one line why not more. The line is empty for `direct`.
struct direct_offer {
  direct_kind kind = direct_kind::unavailable;
  std::string reason;
};

class direct_files {
 public:
  virtual ~direct_files() = default;

  // Detects what is available and prepares it. The first call may take long. `compatible_too`: a
  // processor may copy.
  virtual direct_offer prepare(bool compatible_too) = 0;

  // Opens a file by a descriptor that is open for reading, stays the caller's, and outlives the
  // handle. not_supported: its file system cannot.
  virtual result<uint64_t> open(int descriptor) = 0;
  virtual void close(uint64_t file) noexcept = 0;

  // Blocks. Reads bytes [offset, offset + size) of the file into device memory. `moved` counts
  // bytes, and is short only at the end of the file. Any thread.
  virtual status read(uint64_t file, uint64_t offset, void *target, size_t size, size_t &moved) = 0;
};

}  // namespace tanada::seams
