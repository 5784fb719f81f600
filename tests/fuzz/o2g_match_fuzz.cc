// Receives, messages, cancellations and claims in any order: each call of kernel/o2g/match.h
// returns what a search of two lists returns. The first byte of the input chooses the shape; then
// come steps, one byte each with its arguments behind it.
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "fuzz/input.hpp"
#include "products/o2g/match_fixture.hpp"

namespace {

using namespace tanada;

struct input : test::fuzz_input {
  using fuzz_input::fuzz_input;
  uint64_t below(uint64_t bound) {
    return byte() % bound;
  }
};

constexpr o2g::match_trial_shape shapes[] = {{2, 2, 1}, {16, 3, 2}, {256, 200, 4}, {64, 2, 12}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  input from{bytes, size};
  o2g::match_trial trial{from, shapes[from.byte() % std::size(shapes)]};
  for (unsigned step = 0; !from.empty(); step++) {
    const char *const difference = trial.step();
    if (difference == nullptr)
      continue;
    std::fprintf(stderr, "o2g_match_fuzz: %s differs in step %u\n", difference, step);
    std::abort();
  }
  return 0;
}
