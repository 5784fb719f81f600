// Accumulates on mapped memory, by the processor.
#include "onesided/job/atomics.hpp"

#include <bit>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::onesided {
namespace {

using seams::fabric_element;

template <class T>
void add_words(std::byte *target, const std::byte *source, size_t size) noexcept {
  for (size_t done = 0; done < size; done += sizeof(T)) {
    T operand;
    std::memcpy(&operand, source + done, sizeof operand);
    __atomic_fetch_add(reinterpret_cast<T *>(target + done), operand, __ATOMIC_RELAXED);
  }
}

template <class T, class Word>
void add_floats(std::byte *target, const std::byte *source, size_t size) noexcept {
  for (size_t done = 0; done < size; done += sizeof(T)) {
    T operand;
    std::memcpy(&operand, source + done, sizeof operand);
    auto *const word = reinterpret_cast<Word *>(target + done);
    Word expected = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (
        !__atomic_compare_exchange_n(word,
                                     &expected,
                                     std::bit_cast<Word>(T(std::bit_cast<T>(expected) + operand)),
                                     true,
                                     __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {}
  }
}

}  // namespace

void accumulate_local(fabric_element element,
                      std::byte *target,
                      const std::byte *source,
                      size_t size) noexcept {
  TND_ASSERT(size % element_alignment(element) == 0);
  switch (element) {
    case fabric_element::u32:
      add_words<uint32_t>(target, source, size);
      break;
    case fabric_element::u64:
      add_words<uint64_t>(target, source, size);
      break;
    case fabric_element::f32:
    case fabric_element::c64:
      add_floats<float, uint32_t>(target, source, size);
      break;
    case fabric_element::f64:
    case fabric_element::c128:
      add_floats<double, uint64_t>(target, source, size);
      break;
  }
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

size_t element_size(fabric_element element) noexcept {
  switch (element) {
    case fabric_element::u32:
    case fabric_element::f32:
      return 4;
    case fabric_element::c128:
      return 16;
    default:
      return 8;
  }
}

size_t element_alignment(fabric_element element) noexcept {
  switch (element) {
    case fabric_element::u32:
    case fabric_element::f32:
    case fabric_element::c64:
      return 4;
    default:
      return 8;
  }
}

}  // namespace tanada::onesided
