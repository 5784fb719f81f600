// The handler of failed assertions, in the library and in each plugin.
#include "core/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

void tanada::assert_failed(const char *condition, const char *file, int line) noexcept {
  std::fprintf(stderr, "tanada: bug: %s at %s:%d\n", condition, file, line);
  std::abort();
}
