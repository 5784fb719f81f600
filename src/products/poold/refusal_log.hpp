// products/poold/refusal_log.hpp: the rate-limited log of unauthenticated connections.
#pragma once

#include <string>

#include "core/base/log_limit.hpp"
#include "core/base/mutex.hpp"

namespace tanada::poold {

// Any peer that reaches the port can cause these lines. After the first ones, one line is logged in
// ten seconds. Thread-safe.
class refusal_log {
 public:
  void add(uint64_t now_ns, const std::string &line);

 private:
  mutex mutex_;
  log_limit limit_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::poold
