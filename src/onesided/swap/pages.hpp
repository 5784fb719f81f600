// onesided/swap/pages.hpp: pages of a process's swappable memory, and one bit for each page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/assert.hpp"

namespace tanada::onesided::swap {

inline constexpr size_t page_size =
    4096;  // bytes; the unit of counts, moves and requests, whatever the system's page size

// Adjacent pages: the index of the first one in its memory, and their number.
struct page_run {
  uint32_t first = 0, count = 0;

  // Bytes.
  uint64_t offset() const noexcept {
    return uint64_t(first) * page_size;
  }
  // Bytes.
  uint64_t size() const noexcept {
    return uint64_t(count) * page_size;
  }
  uint32_t end() const noexcept {
    return first + count;
  }
  bool operator==(const page_run &) const = default;
};

// The pages that contain these bytes; empty for size 0.
constexpr page_run pages_of(uint64_t offset, uint64_t size) noexcept {
  if (size == 0)
    return {};
  uint64_t const first = offset / page_size, last = (offset + size - 1) / page_size;
  return {uint32_t(first), uint32_t(last - first + 1)};
}

// The first page of [position, count) that consists of zeros, or of which that is false if `value`
// is false; `count` if no page matches. `pages`: the bytes of `count` pages.
uint32_t find_zero_page(bool value,
                        const std::byte *pages,
                        uint32_t position,
                        uint32_t count) noexcept;

// One bit for each page, in memory that the caller owns and that processes may share. The bits are
// zero at first. This is a view: copies refer to the same bits.
//
// Thread safety: any thread, and any process that shares the memory. Single bits change atomically,
// and runs do not. Callers ensure the order with other memory.
class page_bits {
 public:
  using word = std::atomic<uint64_t>;
  static constexpr uint32_t word_bits = 64;

  static constexpr size_t word_count(uint32_t page_count) noexcept {
    return (size_t(page_count) + word_bits - 1) / word_bits;
  }
  static constexpr size_t memory_size(uint32_t page_count) noexcept {
    return word_count(page_count) * sizeof(word);
  }

  page_bits() = default;
  // The word_count(page_count) words outlive the view.
  page_bits(word *words, uint32_t page_count) noexcept : words_{words}, count_{page_count} {}

  uint32_t page_count() const noexcept {
    return count_;
  }
  bool test(uint32_t page) const noexcept {
    return (words_[page / word_bits].load(std::memory_order_relaxed) & bit(page)) != 0;
  }

  // All pages must exist. Words that already have the right value are not written.
  void set(page_run pages) noexcept {
    change<true>(pages);
  }
  void clear(page_run pages) noexcept {
    change<false>(pages);
  }

  // The number of pages of the run whose bit is set.
  uint32_t count_set(page_run pages) const noexcept;
  uint32_t count_set() const noexcept {
    return count_set({0, count_});
  }

  // The first page from `begin` on, and before `end`, whose bit is `value`; `end` if no page
  // matches.
  uint32_t find(bool value, uint32_t begin, uint32_t end) const noexcept;

  // Calls f(page_run) for the longest runs of pages whose bit is `value`, in ascending order,
  // clipped to `within`.
  template <class Function>
  void for_each_run(bool value, page_run within, Function &&f) const {
    for (uint32_t position = find(value, within.first, within.end()); position < within.end();) {
      uint32_t const end = find(!value, position, within.end());
      f(page_run{position, end - position});
      position = find(value, end, within.end());
    }
  }

 private:
  static constexpr uint64_t bit(uint32_t page) noexcept {
    return uint64_t{1} << page % word_bits;
  }
  // The bits of word `index` that belong to [first, end).
  static constexpr uint64_t mask(uint32_t index, uint32_t first, uint32_t end) noexcept {
    uint32_t const begin = index * word_bits;
    uint64_t bits = ~uint64_t{0};
    if (first > begin)
      bits &= ~uint64_t{0} << (first - begin);
    if (end - begin < word_bits)
      bits &= (uint64_t{1} << (end - begin)) - 1;
    return bits;
  }

  template <bool value>
  void change(page_run pages) noexcept {
    TND_ASSERT(pages.end() <= count_);
    for (uint32_t i = pages.first / word_bits; uint64_t{i} * word_bits < pages.end(); i++) {
      uint64_t const bits = mask(i, pages.first, pages.end());
      uint64_t const current = words_[i].load(std::memory_order_relaxed);
      if constexpr (value) {
        if ((current & bits) != bits)
          words_[i].fetch_or(bits, std::memory_order_relaxed);
      } else {
        if ((current & bits) != 0)
          words_[i].fetch_and(~bits, std::memory_order_relaxed);
      }
    }
  }

  word *words_ = nullptr;
  uint32_t count_ = 0;
};
static_assert(page_bits::word::is_always_lock_free && sizeof(page_bits::word) == 8);

}  // namespace tanada::onesided::swap
