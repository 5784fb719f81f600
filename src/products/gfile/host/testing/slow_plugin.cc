// A plugin that is slow to load and then none of ours: for the test that nobody waits for it who
// does not need it.
#include <unistd.h>

namespace {
[[gnu::constructor]] void load_slowly() {
  (void)usleep(1'000'000);
}
}  // namespace
