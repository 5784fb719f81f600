// seams/fabric/update_word.hpp: updates of a word by this processor, atomic with all updates that
// are made in the same way.
#pragma once

#include <type_traits>

#include "seams/fabric/fabric.hpp"

namespace tanada::seams {

// Words that processors and fabrics update atomically.
template <class T>
concept atomic_word = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

// Returns the previous value. `word` is aligned to its size.
template <atomic_word T>
inline T update_word(fabric_atomic kind, T *word, T operand, T compare) noexcept {
  using enum fabric_atomic;
  static_assert(__atomic_always_lock_free(sizeof(T), nullptr));
  switch (kind) {
    case add:
      return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case bit_and:
      return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case bit_or:
      return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case bit_xor:
      return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    case swap:
      return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case fetch:
      return __atomic_load_n(word, __ATOMIC_SEQ_CST);
    case compare_swap:
      __atomic_compare_exchange_n(
          word, &compare, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      return compare;
  }
  return T{};
}

}  // namespace tanada::seams
