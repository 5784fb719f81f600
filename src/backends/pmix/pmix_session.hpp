// backends/pmix/pmix_session.hpp: this process's connection to its launcher, by PMIx.
#pragma once

#include <pmix.h>

#include <atomic>
#include <functional>
#include <string>

#include "core/base/mutex.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::port {

inline constexpr const char *pmix_left_key = "tanada.left";  // what a process publishes last

// One for the process, made when it first joins. It is not given up when the last user leaves, but
// when the process ends: a process that joined again after that would be taken for one that is
// gone, by the first who waits for it. Who ends the process without having left, or by _exit, has
// failed as far as the launcher knows. PMIx counts its users in a process: MPI may be another,
// before or after.
class pmix_session {
 public:
  static pmix_session &of_process();

  // On failure `message` says why.
  status join(std::string &message);
  void leave();

  const pmix_proc_t &self() const noexcept {
    return self_;
  }
  // As bootstrap::watch_launcher.
  void watch_launcher(std::function<void()> gone);
  void launcher_is_gone();

  uint32_t next_instance() noexcept {
    return instances_++;
  }

  // A collective has failed: ranks are no longer at the same place, in none of the later ones.
  std::atomic<bool> has_failed{false};

 private:
  status connect(std::string &message);
  void watch();
  void end();
  static void at_exit();

  mutex mutex_;  // of all that follows but self_, which does not change once somebody has joined
  bool is_connected_ = false, is_watching_ = false, is_exiting_ = false;
  int32_t process_ = 0;  // of which it is: a child that was forked has none
  uint32_t users_ = 0;
  size_t handler_ = 0;
  pmix_proc_t self_{};
  std::atomic<uint32_t> instances_{0};

  mutex launcher_mutex_;  // of the two that follow
  bool has_lost_launcher_ = false;
  std::function<void()> on_launcher_gone_;
};

}  // namespace tanada::port
