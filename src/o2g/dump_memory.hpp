// o2g/dump_memory.hpp: memory for messages that no receive was posted for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>

namespace tanada::o2g {

// Large blocks that come from the system and go back to it each time cost as much for their pages as for their bytes, so these
// are kept for the next ones, until nothing is in use and more is kept than kept_size_max.
class dump_memory {
 public:
  static constexpr uint64_t large_size_min = 64 << 10, kept_size_max = 64 << 20;

  // Null: the system has no more.
  void *take(uint64_t size) noexcept {
    if (size < large_size_min) return std::malloc(size);
    try {
      void *const taken = large_.allocate(size);
      in_use_size_ += size;
      highest_size_ = std::max(highest_size_, in_use_size_);
      return taken;
    } catch (const std::bad_alloc &) {
      return nullptr;
    }
  }

  // What take(size) gave.
  void give(void *what, uint64_t size) noexcept {
    if (size < large_size_min) return std::free(what);
    large_.deallocate(what, size);
    in_use_size_ -= size;
    if (in_use_size_ != 0 || highest_size_ <= kept_size_max) return;
    large_.release();
    highest_size_ = 0;
  }

 private:
  std::pmr::unsynchronized_pool_resource large_{{.max_blocks_per_chunk = 4, .largest_required_pool_block = 4 << 20}};
  uint64_t in_use_size_ = 0, highest_size_ = 0;  // of large blocks
};

}  // namespace tanada::o2g
