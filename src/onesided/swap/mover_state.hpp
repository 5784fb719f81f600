// onesided/swap/mover_state.hpp: what a mover keeps for each process, request and operation.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "core/base/assert.hpp"
#include "onesided/swap/mover.hpp"

namespace tanada::comex::swap {

// Bits of the mover's own. Those that are never set take no memory.
class mover::page_set {
 public:
  explicit page_set(uint32_t page_count)
      : words_{static_cast<page_bits::word *>(
            std::calloc(page_bits::word_count(page_count) + 1, sizeof(page_bits::word)))},
        bits_{words_, page_count} {
    TND_ASSERT(words_ != nullptr);
  }
  ~page_set() {
    std::free(words_);
  }
  page_set(const page_set &) = delete;
  page_set &operator=(const page_set &) = delete;

  page_bits *operator->() noexcept {
    return &bits_;
  }
  const page_bits *operator->() const noexcept {
    return &bits_;
  }

 private:
  page_bits::word *words_;
  page_bits bits_;
};

struct mover::serving {
  request *which;
  bool is_asked = false;  // for all pages that have to be read
  bool is_served = false;
  // By a copy.
  uint32_t copy = request::no_copy;
  uint32_t next = 0, flying = 0;  // the run to be read next; operations under way

  bool is_copied() const noexcept {
    return copy != request::no_copy;
  }
};

struct mover::rank_space {
  rank_space(uint32_t index_, swappable of, uint32_t page_count)
      : index{index_},
        memory{of.memory},
        stored{of.stored},
        object{of.object},
        window{std::move(of.window)},
        here{page_count},
        flying{page_count},
        used{page_count} {}

  uint32_t const index;
  memory_file const memory;
  page_bits stored;
  port::store_file const object;
  std::unique_ptr<memory_window> window;

  phase at = phase::whole;
  uint32_t epoch = 0;       // lives of its cache
  uint32_t extent = 0;      // pages from here on were never touched
  uint32_t object_end = 0;  // pages that the object has room for
  page_set here;            // in DRAM; of one that is not whole
  page_set flying;          // being read
  page_set used;            // asked for lately, of those in the cache
  uint32_t here_count = 0;
  uint32_t busy_count = 0;  // operations under way
  std::vector<serving> servings;

  // Of a move.
  std::optional<order> move;
  bool has_begun = false;
  bool is_growing = false;  // its object, before it is written
  uint32_t cursor = 0;
  uint64_t moved_pages = 0;

  page_run all() const noexcept {
    return {0, extent};
  }
  bool is_large(uint32_t page) const noexcept {
    return window != nullptr && window->is_large(page);
  }
  // Operations end with blocks, so that each is of large pages or of small ones.
  uint32_t limit(uint32_t first, uint32_t end) const noexcept {
    return window == nullptr ? end : std::min(end, window->block_end(first));
  }
};

struct mover::cached_run {
  uint32_t rank, epoch;
  page_run pages;
};

struct mover::chunk {
  std::byte *buffer = nullptr;
  bool is_direct = false;  // the store has the memory itself in place of the buffer
  purpose why = purpose::none;
  const request *copied_for = nullptr;
  uint32_t rank = 0, epoch = 0;
  page_run pages;
};

}  // namespace tanada::comex::swap
