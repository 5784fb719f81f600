// backends/sockets/spin.cc: what polling depends on: the processors and their instructions.
#include "backends/sockets/spin.hpp"

#include "seams/os/processors.hpp"

namespace tanada::backends {

void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint64_t useful_spin_ns(uint64_t spin_ns) noexcept {
  return seams::processors_allowed().count() > 1 ? spin_ns : 0;
}

}  // namespace tanada::backends
