#include "seams/os/yield.hpp"

#include "executor/yield.hpp"

namespace tanada::port {

bool thread_yield() noexcept {
  thread_local simt::host::yielder yields;
  return yields.yield();
}

}  // namespace tanada::port
