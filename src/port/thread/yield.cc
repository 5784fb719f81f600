#include "port/thread/yield.hpp"

#include "simt/host/yield.hpp"

namespace tanada::port {

bool thread_yield() noexcept {
  thread_local simt::host::yielder yields;
  return yields.yield();
}

}  // namespace tanada::port
