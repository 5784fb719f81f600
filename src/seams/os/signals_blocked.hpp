// seams/os/signals_blocked.hpp: for the start of threads of ours.
#pragma once

#include <signal.h>

namespace tanada::port {

// While it lives, threads started here get every signal blocked. Signals of the process are for its
// own threads; one that a system call raises stays pending in ours and the call fails: EPIPE for
// SIGPIPE, EFBIG for SIGXFSZ.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  signals_blocked(const signals_blocked &) = delete;
  signals_blocked &operator=(const signals_blocked &) = delete;

 private:
  sigset_t before_;
};

}  // namespace tanada::port
