// onesided/swap/page_mover_state.hpp: the page mover's state of each process, request and store
// operation.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "core/base/assert.hpp"
#include "onesided/swap/page_mover.hpp"

namespace tanada::onesided::swap {

// The page mover's own bits for the pages of a process. Words that are never set take no memory.
class page_mover::page_set {
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

struct page_mover::active_request {
  page_request *request;
  bool are_reads_posted = false;  // all necessary reads are posted
  bool is_served = false;
  // Served by a copy.
  uint32_t copy = page_request::no_copy;
  uint32_t next_run = 0, in_flight = 0;  // the next run to read; operations in flight

  bool is_copied() const noexcept {
    return copy != page_request::no_copy;
  }
  // The origin has completed the request.
  bool is_released() const noexcept {
    return is_served &&
           request->current_stage.load(std::memory_order_acquire) == page_request::stage::completed;
  }
};

struct page_mover::rank_space {
  rank_space(uint32_t index_, swappable_memory source, uint32_t page_count)
      : index{index_},
        memory{source.memory},
        stored{source.stored},
        cold{source.cold},
        left_out{source.left_out},
        object{source.object},
        window{std::move(source.window)},
        resident{page_count},
        in_flight{page_count},
        recently_used{page_count} {}

  uint32_t const index;
  memory_file const memory;
  page_bits stored, cold, left_out;
  seams::store_file const object;
  std::unique_ptr<memory_window> window;

  phase current_phase = phase::resident;
  uint32_t epoch = 0;       // counts the lives of its cache
  uint32_t extent = 0;      // pages from here on were never touched
  uint32_t object_end = 0;  // pages that the object has space for
  page_set resident;        // in DRAM; not maintained while the process is resident
  page_set in_flight;       // being read
  page_set recently_used;   // pages in the cache that were requested recently
  uint32_t resident_count = 0;
  uint32_t busy_count = 0;  // operations in flight
  std::vector<active_request> requests;

  // State of a move.
  std::optional<move_order> move;
  bool has_begun = false;
  bool is_growing = false;  // its object is being extended before it is written
  uint32_t cursor = 0;
  uint64_t moved_pages = 0;

  page_run all_pages() const noexcept {
    return {0, extent};
  }
  bool may_leave_out() const noexcept {
    return left_out.page_count() != 0;
  }
  bool is_left_out(uint32_t page) const noexcept {
    return may_leave_out() && left_out.test(page);
  }
  // The first page of [first, end) that is left out.
  uint32_t find_left_out(uint32_t first, uint32_t end) const noexcept {
    return may_leave_out() ? left_out.find(true, first, end) : end;
  }
  bool is_large(uint32_t page) const noexcept {
    return window != nullptr && window->is_large(page);
  }
  // Operations end with blocks, so that each operation covers either large or small pages.
  uint32_t end_in_block(uint32_t first, uint32_t end) const noexcept {
    return window == nullptr ? end : std::min(end, window->block_end(first));
  }
  // The first page in [position, end) to read from the object; `end`: none is left.
  uint32_t find_unread(uint32_t position, uint32_t end) const noexcept;
  // The end of the pages to read that begin with `first`.
  uint32_t find_unread_end(uint32_t first, uint32_t end) const noexcept;
  // The end of the pages to write that begin with `first`, with few clean pages between them.
  uint32_t find_unstored_end(uint32_t first, uint32_t end) const noexcept;
};

struct page_mover::cached_run {
  uint32_t rank, epoch;
  page_run pages;
};

struct page_mover::chunk {
  std::byte *buffer = nullptr;
  std::byte *bytes = nullptr;  // of `pages`: in the buffer, or in the memory itself
  bool is_direct = false;      // the store accesses the memory itself instead of the buffer
  purpose kind = purpose::unused;
  const page_request *copy_request = nullptr;
  uint32_t rank = 0, epoch = 0;
  page_run pages;
};

}  // namespace tanada::onesided::swap
