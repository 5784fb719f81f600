// Bits of pages: counting and searching them word by word; and pages of zeros.
#include "onesided/swap/pages.hpp"

#include <bit>
#include <cstring>

namespace tanada::onesided::swap {
namespace {

// Most pages with other bytes have some of them in the first words.
bool is_zero(const std::byte *page) noexcept {
  constexpr size_t head_size = 64;
  static constexpr std::byte zeros[head_size]{};
  return std::memcmp(page, zeros, head_size) == 0 &&
         std::memcmp(page, page + head_size, page_size - head_size) == 0;
}

}  // namespace

uint32_t find_zero_page(bool value,
                        const std::byte *pages,
                        uint32_t position,
                        uint32_t count) noexcept {
  TND_ASSERT(position <= count);
  while (position < count && is_zero(pages + size_t{position} * page_size) != value)
    position++;
  return position;
}

uint32_t page_bits::count_set(page_run pages) const noexcept {
  TND_ASSERT(pages.end() <= count_);
  uint32_t count = 0;
  for (uint32_t i = pages.first / word_bits; uint64_t{i} * word_bits < pages.end(); i++) {
    count += uint32_t(std::popcount(words_[i].load(std::memory_order_relaxed) &
                                    mask(i, pages.first, pages.end())));
  }
  return count;
}

uint32_t page_bits::find(bool value, uint32_t begin, uint32_t end) const noexcept {
  TND_ASSERT(end <= count_);
  for (uint32_t i = begin / word_bits; uint64_t{i} * word_bits < end; i++) {
    uint64_t const current = words_[i].load(std::memory_order_relaxed);
    uint64_t const matches = (value ? current : ~current) & mask(i, begin, end);
    if (matches != 0)
      return i * word_bits + uint32_t(std::countr_zero(matches));
  }
  return end;
}

}  // namespace tanada::onesided::swap
