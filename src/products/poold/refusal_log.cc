// Rate-limited log lines about unauthenticated connections.
#include "products/poold/refusal_log.hpp"

#include "core/base/log.hpp"

namespace tanada::poold {

void refusal_log::add(uint64_t now_ns, const std::string &line) {
  uint64_t left_out_count = 0;
  {
    lock_guard lock{mutex_};
    if (!limit_.admit(now_ns))
      return;
    left_out_count = limit_.take_suppressed_count();
  }
  if (left_out_count == 0) {
    log(log_level::warning, "pool: {}", line);
    return;
  }
  log(log_level::warning,
      "pool: {}; {} lines of this kind were suppressed before it",
      line,
      left_out_count);
}

}  // namespace tanada::poold
