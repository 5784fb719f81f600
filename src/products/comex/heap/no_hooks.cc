// products/comex/heap/no_hooks.cc: used with sanitizers, which have their own malloc. The program's
// allocations stay resident.
#include "core/base/log.hpp"
#include "products/comex/heap/hooks.hpp"

namespace tanada::comex::heap {

void serve_program(allocator &, size_t) {
  log(log_level::warning, "with a sanitizer the program's own allocations stay resident");
}
void stop_serving() noexcept {}

}  // namespace tanada::comex::heap
