// Where sanitizers have malloc of their own: the program's pieces stay in memory.
#include "core/base/log.hpp"
#include "products/comex/heap/hooks.hpp"

namespace tanada::comex::heap {

void serve_program(pieces &, size_t) {
  log(log_level::warning, "with a sanitizer what the program allocates itself stays in memory");
}
void stop_serving() noexcept {}

}  // namespace tanada::comex::heap
