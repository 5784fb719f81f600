// seams/os/ledger.hpp: pieces of a range of memory that the books do not lie in: only sizes and
// places. Boost.MultiIndex keeps them by place and by size. area.hpp is for memory that keeps its
// own books.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

namespace tanada::port {

// The same calls in the same order give the same places. Best fit, the lowest place of equals;
// neighbours that are free join.
//
// Not thread-safe.
class ledger {
 public:
  // Pieces begin and end at multiples of `granule`, a power of two. What is left of `size` behind
  // the last one is not used.
  ledger(size_t size, size_t granule);
  ~ledger();
  ledger(const ledger &) = delete;
  ledger &operator=(const ledger &) = delete;

  // The place, a multiple of `alignment` (a power of two). None: there is no such piece, or no
  // bytes were asked for.
  std::optional<size_t> allocate(size_t size, size_t alignment);
  bool release(size_t offset);  // false: no piece begins there
  std::optional<size_t> size_of(
      size_t offset) const;  // bytes, rounded up to the granule; none: no piece begins there
  bool resize(size_t offset,
              size_t size);  // where it is; false, and nothing done: no room, no bytes, no piece

  size_t free_size() const noexcept;  // bytes; not in one piece

 private:
  struct books;
  std::unique_ptr<books> books_;
};

}  // namespace tanada::port
