// seams/os/area.hpp: pieces of memory out of memory that somebody gave. What is handed out and
// what manages it lies in that memory alone, so it is bounded by its size. Boost.Interprocess does
// it: best fit in a tree, neighbours that are free join.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/base/result.hpp"

namespace tanada::port {

// Not thread-safe.
class area {
 public:
  // The memory outlives the area. invalid: it is too small to be managed; 1 KiB is enough.
  static result<std::unique_ptr<area>> create(std::span<std::byte> memory);

  area(const area &) = delete;
  area &operator=(const area &) = delete;
  ~area();

  // Aligned to 16 bytes. Null: there is no such piece.
  void *allocate(size_t size) noexcept;
  void release(void *piece) noexcept;

  size_t free_size() const noexcept;  // bytes; not in one piece

 private:
  struct manager;
  explicit area(std::unique_ptr<manager> made);

  std::unique_ptr<manager> manager_;
};

}  // namespace tanada::port
