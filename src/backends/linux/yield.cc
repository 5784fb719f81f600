// backends/linux/yield.cc: thread_yield() by the host executor's yielder.
#include "seams/os/yield.hpp"

#include "executor/yield.hpp"

namespace tanada::seams {

bool thread_yield() noexcept {
  thread_local simt::host::yielder yields;
  return yields.yield();
}

}  // namespace tanada::seams
