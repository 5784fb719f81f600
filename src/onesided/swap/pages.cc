// Bits of pages: counting and searching them word by word.
#include "onesided/swap/pages.hpp"

#include <bit>

namespace tanada::onesided::swap {

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
