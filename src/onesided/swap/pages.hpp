// onesided/swap/pages.hpp: pages of a process's swappable memory, and a bit for each of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tanada::comex::swap {

inline constexpr size_t page_size =
    4096;  // bytes; what is counted, moved and asked for, whatever the system's pages are

// Neighbouring pages: the first one's index in the memory they are of, and how many.
struct page_run {
  uint32_t first = 0, count = 0;

  uint64_t offset() const noexcept {
    return uint64_t(first) * page_size;
  }  // bytes
  uint64_t size() const noexcept {
    return uint64_t(count) * page_size;
  }  // bytes
  uint32_t end() const noexcept {
    return first + count;
  }
  bool operator==(const page_run &) const = default;
};

// The pages that these bytes lie in; none for no bytes.
constexpr page_run pages_of(uint64_t offset, uint64_t size) noexcept {
  if (size == 0)
    return {};
  uint64_t const first = offset / page_size, last = (offset + size - 1) / page_size;
  return {uint32_t(first), uint32_t(last - first + 1)};
}

// A bit for each page, in memory of somebody else's, which processes may share: zeros at first. A
// view: copies are of the same bits.
//
// Thread safety: any thread, and any process that has the memory. Each bit changes at once, runs do
// not; the order with other memory is the callers' affair.
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
  // word_count(page_count) words, which outlive it.
  page_bits(word *words, uint32_t page_count) noexcept : words_{words}, count_{page_count} {}

  uint32_t page_count() const noexcept {
    return count_;
  }
  bool test(uint32_t page) const noexcept {
    return (words_[page / word_bits].load(std::memory_order_relaxed) & bit(page)) != 0;
  }

  // Of pages there are. A word that is as it should be is not written.
  void set(page_run pages) noexcept {
    change<true>(pages);
  }
  void clear(page_run pages) noexcept {
    change<false>(pages);
  }

  // Pages of the run whose bit is set.
  uint32_t count_set(page_run pages) const noexcept;
  uint32_t count_set() const noexcept {
    return count_set({0, count_});
  }

  // The first page at or behind `from`, and before `end`, whose bit is `value`; `end`: there is
  // none.
  uint32_t find(bool value, uint32_t from, uint32_t end) const noexcept;

  // f(page_run) for the longest runs of pages whose bit is `value`, ascending, cut at the ends of
  // `within`.
  template <class Function>
  void for_each_run(bool value, page_run within, Function &&f) const {
    for (uint32_t at = find(value, within.first, within.end()); at < within.end();) {
      uint32_t const end = find(!value, at, within.end());
      f(page_run{at, end - at});
      at = find(value, end, within.end());
    }
  }

 private:
  static constexpr uint64_t bit(uint32_t page) noexcept {
    return uint64_t{1} << page % word_bits;
  }
  // The bits of word `index` that belong to [first, end).
  static constexpr uint64_t mask(uint32_t index, uint32_t first, uint32_t end) noexcept {
    uint32_t const begin = index * word_bits;
    uint64_t of = ~uint64_t{0};
    if (first > begin)
      of &= ~uint64_t{0} << (first - begin);
    if (end - begin < word_bits)
      of &= (uint64_t{1} << (end - begin)) - 1;
    return of;
  }

  template <bool value>
  void change(page_run pages) noexcept {
    for (uint32_t i = pages.first / word_bits; uint64_t{i} * word_bits < pages.end(); i++) {
      uint64_t const of = mask(i, pages.first, pages.end());
      uint64_t const now = words_[i].load(std::memory_order_relaxed);
      if constexpr (value) {
        if ((now & of) != of)
          words_[i].fetch_or(of, std::memory_order_relaxed);
      } else {
        if ((now & of) != 0)
          words_[i].fetch_and(~of, std::memory_order_relaxed);
      }
    }
  }

  word *words_ = nullptr;
  uint32_t count_ = 0;
};
static_assert(page_bits::word::is_always_lock_free && sizeof(page_bits::word) == 8);

}  // namespace tanada::comex::swap
