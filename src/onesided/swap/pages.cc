#include "onesided/swap/pages.hpp"

#include <bit>

namespace tanada::comex::swap {

uint32_t page_bits::count_set(page_run pages) const noexcept {
  uint32_t count = 0;
  for (uint32_t i = pages.first / word_bits; uint64_t{i} * word_bits < pages.end(); i++) {
    count += uint32_t(std::popcount(words_[i].load(std::memory_order_relaxed) &
                                    mask(i, pages.first, pages.end())));
  }
  return count;
}

uint32_t page_bits::find(bool value, uint32_t from, uint32_t end) const noexcept {
  for (uint32_t i = from / word_bits; uint64_t{i} * word_bits < end; i++) {
    uint64_t const now = words_[i].load(std::memory_order_relaxed);
    uint64_t const found = (value ? now : ~now) & mask(i, from, end);
    if (found != 0)
      return i * word_bits + uint32_t(std::countr_zero(found));
  }
  return end;
}

}  // namespace tanada::comex::swap
