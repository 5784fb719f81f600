// seams/os/signals_blocked.hpp: blocks signals while threads of the library are started.
#pragma once

#include <signal.h>

namespace tanada::seams {

// While it lives, threads that this thread starts have every signal blocked. Signals of the process
// are for its own threads. A signal that a system call raises stays pending in the library's
// thread, and the call fails: EPIPE for SIGPIPE, EFBIG for SIGXFSZ.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    pthread_sigmask(SIG_SETMASK, &signals, &previous_mask_);
  }
  ~signals_blocked() {
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  }
  signals_blocked(const signals_blocked &) = delete;
  signals_blocked &operator=(const signals_blocked &) = delete;

 private:
  sigset_t previous_mask_;
};

}  // namespace tanada::seams
