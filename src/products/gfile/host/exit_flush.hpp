// products/gfile/host/exit_flush.hpp: when the process calls exit(), write back what kernels have
// written in the instances that still exist.
#pragma once

#include "products/gfile/host/session.hpp"

namespace tanada::gfile {

// Thread safety: any thread.
class exit_flush {
 public:
  static void add(session &session);
  static void remove(session &session);

  // Run before the handlers of exit() that are registered so far. Libraries of plugins register
  // theirs when they are loaded.
  static void run_first();
};

}  // namespace tanada::gfile
