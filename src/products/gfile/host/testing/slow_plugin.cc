// A library that loads slowly and is no plugin of Tanada: for the test that only requests that need
// a plugin wait for it.
#include <unistd.h>

namespace {
[[gnu::constructor]] void load_slowly() {
  (void)usleep(1'000'000);
}
}  // namespace
