// seams/os/range_allocator.hpp: allocates ranges by offset and size, with metadata outside of the
// memory. Boost.MultiIndex keeps them by offset and by size. arena.hpp is for memory that holds its
// own metadata.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

namespace tanada::seams {

// The same calls in the same order return the same offsets. Best fit, the lowest offset of equals;
// free neighbours are merged.
//
// Not thread-safe.
class range_allocator {
 public:
  // Ranges begin and end at multiples of `granule`, a power of two. The rest of `size` after the
  // last granule is not used.
  range_allocator(size_t size, size_t granule);
  ~range_allocator();
  range_allocator(const range_allocator &) = delete;
  range_allocator &operator=(const range_allocator &) = delete;

  // The offset, a multiple of `alignment` (a power of two). Nothing: no free range is large enough,
  // or `size` is 0.
  std::optional<size_t> allocate(size_t size, size_t alignment);
  bool release(size_t offset);  // false: no range begins there
  // Bytes, rounded up to the granule. Nothing: no range begins there.
  std::optional<size_t> size_of(size_t offset) const;
  // Resizes in place. False, without effect: no free space after it, `size` is 0, or no range
  // begins there.
  bool resize(size_t offset, size_t size);

  size_t free_size() const noexcept;  // bytes, not necessarily contiguous

 private:
  struct metadata;
  std::unique_ptr<metadata> metadata_;
};

}  // namespace tanada::seams
