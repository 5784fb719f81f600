// Keeps the reason of a refused launch.
#include "executor/launch_refusal.hpp"

#include <utility>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::simt::host {
namespace {

struct refusal {
  tanada::mutex mutex;
  std::string reason TND_GUARDED_BY(mutex);
};
refusal &first() {
  // never destroyed: programs launch kernels until they exit
  static refusal &instance = *new refusal;
  return instance;
}

}  // namespace

void refuse_launch(const char *reason) noexcept {
  set_last_message(std::string{"a launch was refused: "} + reason);
  refusal &stored = first();
  lock_guard const lock{stored.mutex};
  if (!stored.reason.empty())
    return;
  stored.reason = reason;
  log(log_level::error, "a kernel was not launched: {}", reason);
}

std::string take_refused_launch() {
  refusal &stored = first();
  lock_guard const lock{stored.mutex};
  return std::exchange(stored.reason, {});
}

}  // namespace tanada::simt::host
