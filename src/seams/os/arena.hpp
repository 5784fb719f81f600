// seams/os/arena.hpp: an allocator within memory that the caller provides. Blocks and metadata lie
// only in that memory, so its size bounds them. Boost.Interprocess implements it: best fit in a
// tree, with free neighbours merged.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/base/result.hpp"

namespace tanada::seams {

// Not thread-safe.
class arena {
 public:
  // The memory outlives the arena. invalid: it is too small to be managed; 1 KiB is enough.
  static result<std::unique_ptr<arena>> create(std::span<std::byte> memory);

  arena(const arena &) = delete;
  arena &operator=(const arena &) = delete;
  ~arena();

  // Aligned to 16 bytes. Null: no free block is large enough.
  void *allocate(size_t size) noexcept;
  void release(void *block) noexcept;

  size_t free_size() const noexcept;  // bytes, not necessarily contiguous

 private:
  struct manager;
  explicit arena(std::unique_ptr<manager> new_manager);

  std::unique_ptr<manager> manager_;
};

}  // namespace tanada::seams
