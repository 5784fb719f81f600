// backends/pmix/pmix_session.hpp: this process's connection to its launcher, by PMIx.
#pragma once

#include <pmix.h>

#include <atomic>
#include <functional>
#include <string>

#include "core/base/mutex.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::backends {

inline constexpr const char *pmix_left_key =
    "tanada.left";  // the last value that a process publishes

// The connection of the process, made when it first joins. It is kept until the process ends, even
// when the last user leaves: a process that joined again would be considered failed by the first
// that waits for it. A process that ends without leaving, or by _exit, has failed as far as the
// launcher knows. PMIx counts its users in a process: MPI may be another one, before or after.
class pmix_session {
 public:
  static pmix_session &process_session();

  // On failure `message` has the reason.
  status join(std::string &message);
  void leave();

  const pmix_proc_t &self() const noexcept {
    return self_;
  }
  // As bootstrap::watch_launcher.
  void watch_launcher(std::function<void()> callback);
  void notify_launcher_lost();

  uint32_t next_instance() noexcept {
    return instances_++;
  }

  // A collective has failed: the ranks are no longer in step, so no later collective is possible.
  std::atomic<bool> has_failed{false};

 private:
  status connect(std::string &message) TND_REQUIRES(mutex_);
  void watch() TND_REQUIRES(mutex_);
  void end() TND_REQUIRES(mutex_);
  static void at_exit();

  mutex mutex_;
  bool is_connected_ TND_GUARDED_BY(mutex_) = false;
  bool is_watching_ TND_GUARDED_BY(mutex_) = false;
  bool is_exiting_ TND_GUARDED_BY(mutex_) = false;
  // The process that connected; a forked child has no connection.
  int32_t process_ TND_GUARDED_BY(mutex_) = 0;
  uint32_t users_ TND_GUARDED_BY(mutex_) = 0;
  size_t handler_ TND_GUARDED_BY(mutex_) = 0;
  pmix_proc_t self_{};  // does not change after the first join
  std::atomic<uint32_t> instances_{0};

  mutex launcher_mutex_;
  bool has_lost_launcher_ TND_GUARDED_BY(launcher_mutex_) = false;
  std::function<void()> on_launcher_lost_ TND_GUARDED_BY(launcher_mutex_);
};

}  // namespace tanada::backends
