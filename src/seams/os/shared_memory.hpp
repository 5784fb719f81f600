// seams/os/shared_memory.hpp: memory that processes of one node share by a descriptor. It has no
// name: nothing stays behind.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/base/result.hpp"

namespace tanada::port {

// A descriptor of memory, zeros at first. Closed by the destructor; mappings outlive it.
class shared_memory {
 public:
  // size: bytes, a multiple of the page size. no_memory, or what the system said, with a message.
  static result<shared_memory> create(const char *label, size_t size);

  shared_memory(shared_memory &&other) noexcept : descriptor_{other.descriptor_} {
    other.descriptor_ = -1;
  }
  shared_memory &operator=(shared_memory &&other) noexcept;
  ~shared_memory();

  int descriptor() const noexcept {
    return descriptor_;
  }
  int release() noexcept {
    return std::exchange(descriptor_, -1);
  }  // the caller's from now on

 private:
  explicit shared_memory(int descriptor) : descriptor_{descriptor} {}

  int descriptor_;
};

// Of a mapping whose place the system chooses: what lies `offset` bytes from its beginning is at a
// multiple of `alignment`, a power of two. Both are multiples of large pages.
struct aligned_part {
  size_t alignment = size_t{2} << 20;  // bytes
  size_t offset = 0;                   // bytes
};

// Part of shared memory in this process. Unmapped by the destructor.
class shared_mapping {
 public:
  static constexpr size_t alignment = size_t{2} << 20;  // bytes: that of large pages

  shared_mapping() = default;
  // Begins at a multiple of `alignment`. All of `size` bytes behind a descriptor, readable and
  // writable, large pages where the system gives them. invalid if there is less behind it, or may
  // be later: touching what is not there would end the process. `at`: there, and nowhere else
  // (exists: something of the process lies there); null: the system's choice.
  static result<shared_mapping> map(int descriptor, size_t size, void *at = nullptr,
                                    const aligned_part &part = {});
  // As map, for memory in which several processes work. Where those of a test are threads of one,
  // each with a mapping of its own, ThreadSanitizer would see none of their races: it knows places
  // by their address. Its builds give all the first one's mapping, if that is large enough
  // (is_joint).
  static result<shared_mapping> map_beside(int descriptor, size_t size, void *at = nullptr,
                                           const aligned_part &part = {});
  static const bool is_joint;

  shared_mapping(shared_mapping &&other) noexcept : memory_{other.memory_} {
    other.memory_ = {};
  }
  shared_mapping &operator=(shared_mapping &&other) noexcept;
  ~shared_mapping();

  std::span<std::byte> memory() const noexcept {
    return memory_;
  }

 private:
  std::span<std::byte> memory_;
};

// Nothing of this process lies in these `size` bytes from `at` on.
bool is_unmapped(void *at, size_t size) noexcept;

size_t page_size() noexcept;  // bytes

// size rounded up to whole pages.
size_t pages_size(size_t size) noexcept;

}  // namespace tanada::port
