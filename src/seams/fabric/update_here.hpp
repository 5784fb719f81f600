// seams/fabric/update_here.hpp: updates of a word by this processor, at once for all who update it
// so.
#pragma once

#include <type_traits>

#include "seams/fabric/fabric.hpp"

namespace tanada::port {

// Words that processors and fabrics update at once.
template <class T>
concept atomic_word = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

// What was there before. `at` is aligned to the word.
template <atomic_word T>
inline T update_here(fabric_atomic kind, T *at, T operand, T compare) noexcept {
  using enum fabric_atomic;
  switch (kind) {
    case add: return __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);
    case bit_and: return __atomic_fetch_and(at, operand, __ATOMIC_SEQ_CST);
    case bit_or: return __atomic_fetch_or(at, operand, __ATOMIC_SEQ_CST);
    case bit_xor: return __atomic_fetch_xor(at, operand, __ATOMIC_SEQ_CST);
    case swap: return __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST);
    case fetch: return __atomic_load_n(at, __ATOMIC_SEQ_CST);
    case compare_swap:
      __atomic_compare_exchange_n(at, &compare, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      return compare;
  }
  return T{};
}

}  // namespace tanada::port
