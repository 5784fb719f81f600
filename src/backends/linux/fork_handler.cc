// backends/linux/fork_handler.cc: handlers for the child of fork().
#include "seams/os/fork_handler.hpp"

#include <pthread.h>

namespace tanada::seams {

bool run_in_forked_child(void (*handler)()) noexcept {
  return pthread_atfork(nullptr, nullptr, handler) == 0;
}

}  // namespace tanada::seams
