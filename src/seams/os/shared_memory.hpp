// seams/os/shared_memory.hpp: memory that processes of one node share by a descriptor. It has no
// name, so nothing is left behind.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/base/result.hpp"

namespace tanada::seams {

// A descriptor of memory, initially zero. Closed by the destructor; mappings outlive it.
class shared_memory {
 public:
  // size: bytes, a multiple of the page size. no_memory, or the system's error, with a message.
  static result<shared_memory> create(const char *label, size_t size);

  shared_memory(shared_memory &&source) noexcept : descriptor_{source.descriptor_} {
    source.descriptor_ = -1;
  }
  shared_memory &operator=(shared_memory &&source) noexcept;
  ~shared_memory();

  int descriptor() const noexcept {
    return descriptor_;
  }
  // The caller owns the descriptor from now on.
  int release() noexcept {
    return std::exchange(descriptor_, -1);
  }

 private:
  explicit shared_memory(int descriptor) : descriptor_{descriptor} {}

  int descriptor_;
};

// For a mapping that the system places: the byte `offset` bytes from its beginning is at a multiple
// of `alignment`, a power of two. Both are multiples of large pages.
struct aligned_part {
  size_t alignment = size_t{2} << 20;  // bytes
  size_t offset = 0;                   // bytes
};

// Part of shared memory in this process. Unmapped by the destructor.
class shared_mapping {
 public:
  static constexpr size_t alignment = size_t{2} << 20;  // bytes: that of large pages
  static_assert((alignment & (alignment - 1)) == 0);

  shared_mapping() = default;
  // Maps all of `size` bytes behind a descriptor, readable and writable, with large pages where the
  // system provides them. Begins at a multiple of `alignment`. invalid: the memory is smaller, or
  // may be truncated later, when an access past its end would end the process. `address`: map there
  // and nowhere else (exists: the process has other memory there). Null: the system chooses.
  static result<shared_mapping> map(int descriptor,
                                    size_t size,
                                    void *address = nullptr,
                                    const aligned_part &part = {});
  // As map, for memory that several processes use. In tests those are threads of one process, each
  // with a mapping of its own. ThreadSanitizer would detect none of their races, since it
  // identifies memory by its address. Its builds therefore give the first mapping to all, if that
  // is large enough (is_shared_in_process).
  static result<shared_mapping> map_shared(int descriptor,
                                           size_t size,
                                           void *address = nullptr,
                                           const aligned_part &part = {});
  static const bool is_shared_in_process;

  shared_mapping(shared_mapping &&source) noexcept : memory_{source.memory_} {
    source.memory_ = {};
  }
  shared_mapping &operator=(shared_mapping &&source) noexcept;
  ~shared_mapping();

  std::span<std::byte> memory() const noexcept {
    return memory_;
  }

 private:
  std::span<std::byte> memory_;
};

// Whether this process has no memory in these `size` bytes from `address` on.
bool is_unmapped(void *address, size_t size) noexcept;

size_t page_size() noexcept;  // bytes

// size rounded up to whole pages.
size_t pages_size(size_t size) noexcept;

}  // namespace tanada::seams
