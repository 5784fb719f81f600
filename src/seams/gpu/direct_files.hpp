// seams/gpu/direct_files.hpp: files read into device memory with no copy in host memory.
// Implementations: cuFile (GPUDirect Storage) in the CUDA plugin, and the host executor's, whose
// device memory every system call reaches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.hpp"

namespace tanada::port {

// none: not at all; compatible: by the same calls, but a processor copies; direct: by the devices
// alone.
enum class direct_kind : uint8_t { none, compatible, direct };

// What can be done for a file, and in one line why not more; the line is empty for `direct`.
struct direct_offer {
  direct_kind kind = direct_kind::none;
  std::string reason;
};

class direct_files {
 public:
  virtual ~direct_files() = default;

  // Look for what is there and get ready; the first call may take long. `compatible_too`: a
  // processor may copy.
  virtual direct_offer prepare(bool compatible_too) = 0;

  // A descriptor open for reading, which stays the caller's and outlives the handle. not_supported
  // where its file system cannot.
  virtual result<uint64_t> open(int descriptor) = 0;
  virtual void close(uint64_t file) noexcept = 0;

  // Blocks. Bytes [offset, offset + size) of the file to device memory; `moved` counts bytes and is
  // short at the end of the file only. Any thread.
  virtual status read(uint64_t file, uint64_t offset, void *target, size_t size, size_t &moved) = 0;
};

}  // namespace tanada::port
