// core/base/assert.hpp: a check for our own bugs, on in release builds. Never for bad input.
#pragma once

namespace tanada {
[[noreturn]] void assert_failed(const char *condition, const char *file, int line) noexcept;
}

#define TND_ASSERT(condition) \
  ((condition) ? (void)0 : ::tanada::assert_failed(#condition, __FILE__, __LINE__))
