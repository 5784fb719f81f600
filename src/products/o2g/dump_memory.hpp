// products/o2g/dump_memory.hpp: memory for messages that no receive was posted for.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace tanada::o2g {

// A large block that comes from the system and goes back to it costs as much for its pages as for
// its bytes. So these are kept for the next ones: kept_size_max bytes, and kept_count_max of them.
// A message may have a block of twice its size.
class dump_memory {
 public:
  static constexpr uint64_t large_size_min = 64 << 10, kept_size_max = 64 << 20;
  static constexpr size_t kept_count_max = 128;

  dump_memory() {
    kept_.reserve(kept_count_max);
  }
  ~dump_memory() {
    for (block *const each : kept_)
      std::free(each);
  }
  dump_memory(const dump_memory &) = delete;
  dump_memory &operator=(const dump_memory &) = delete;

  // Null: the system has no more.
  void *take(uint64_t size) noexcept {
    if (size < large_size_min)
      return std::malloc(size);
    // Rounded, so that blocks fit messages that differ a little.
    uint64_t const step = std::bit_floor(size) / 8,
                   rounded = (size + sizeof(block) + step - 1) / step * step;
    auto best = kept_.end();
    for (auto each = kept_.begin(); each != kept_.end(); ++each) {
      bool const fits = (*each)->size >= rounded && (*each)->size / 2 <= rounded;
      if (fits && (best == kept_.end() || (*each)->size < (*best)->size))
        best = each;
    }
    if (best != kept_.end()) {
      block *const taken = *best;
      kept_size_ -= taken->size;
      *best = kept_.back();
      kept_.pop_back();
      return taken + 1;
    }
    void *const memory = std::malloc(rounded);
    return memory == nullptr ? nullptr : new (memory) block{rounded} + 1;
  }

  // What take(size) gave.
  void give(void *what, uint64_t size) noexcept {
    if (size < large_size_min)
      return std::free(what);
    block *const back = static_cast<block *>(what) - 1;
    if (kept_.size() == kept_count_max || kept_size_ + back->size > kept_size_max)
      return std::free(back);
    kept_size_ += back->size;
    kept_.push_back(back);
  }

  uint64_t kept_size() const noexcept {
    return kept_size_;
  }

 private:
  struct alignas(std::max_align_t) block {
    uint64_t size;  // bytes, with this
  };
  std::vector<block *> kept_;
  uint64_t kept_size_ = 0;
};

}  // namespace tanada::o2g
