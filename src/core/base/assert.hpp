// core/base/assert.hpp: checks invariants of our own code, also in release builds. Never for
// invalid input.
#pragma once

namespace tanada {
[[noreturn]] void assert_failed(const char *condition, const char *file, int line) noexcept;
}

#define TND_ASSERT(condition) \
  ((condition) ? (void)0 : ::tanada::assert_failed(#condition, __FILE__, __LINE__))
