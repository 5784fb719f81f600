// tests/fuzz/input.hpp: a fuzzer's input, read from its beginning.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tanada::test {

class fuzz_input {
 public:
  fuzz_input(const uint8_t *bytes, size_t size) : bytes_{bytes}, size_{size} {}
  bool empty() const {
    return size_ == 0;
  }
  // 0 behind the end.
  uint8_t byte() {
    if (size_ == 0)
      return 0;
    size_--;
    return *bytes_++;
  }
  // Of all magnitudes, by one byte: a small number of units, or one that is listed.
  template <size_t count>
  uint64_t size(const uint64_t (&listed)[count], uint64_t unit) {
    uint8_t const which = byte();
    return which < 128 ? which * unit : listed[which % count];
  }

 private:
  const uint8_t *bytes_;
  size_t size_;
};

}  // namespace tanada::test
