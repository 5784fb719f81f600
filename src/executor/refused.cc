#include "executor/refused.hpp"

#include <utility>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::simt::host {
namespace {

struct refusal {
  tanada::mutex mutex;
  std::string reason;  // guarded by mutex
};
refusal &first() {
  static refusal &instance = *new refusal;  // programs launch until they exit
  return instance;
}

}  // namespace

void refuse_launch(const char *why) noexcept {
  set_last_message(std::string{"a launch was refused: "} + why);
  lock_guard const lock{first().mutex};
  if (!first().reason.empty())
    return;
  first().reason = why;
  log(log_level::error, "a kernel was not launched: %s", why);
}

std::string take_refused_launch() {
  lock_guard const lock{first().mutex};
  return std::exchange(first().reason, {});
}

}  // namespace tanada::simt::host
