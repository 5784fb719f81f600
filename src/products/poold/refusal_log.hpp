// products/poold/refusal_log.hpp: lines about connections that proved nothing.
#pragma once

#include <mutex>
#include <string>

#include "core/base/log_limit.hpp"

namespace tanada::poold {

// Anybody who reaches the port can cause these lines: after the first ones they are a line in ten
// seconds. Thread-safe.
class refusal_log {
 public:
  void add(uint64_t now_ns, const std::string &line);

 private:
  std::mutex mutex_;
  log_limit limit_;
};

}  // namespace tanada::poold
