// core/base/message.hpp: what became of this thread's last message.
#pragma once

#include <string>

#include "core/base/log.hpp"

namespace tanada {

// True when the last message was logged already, so that a program which prints it says it a second
// time.
bool last_message_is_logged() noexcept;

// TND_LOG lets lines of this level through.
bool is_level_logged(log_level level);

// For whoever knows better than fail() whether a failure is logged, and at which level: while it
// lives, fail() of this thread keeps its message. take() leaves it to the caller. One that a later
// message replaces, or that is left at the end, is logged as a warning, as without this. They nest:
// what an inner one leaves is the outer one's.
class message_deferral {
 public:
  message_deferral() noexcept;
  ~message_deferral();
  message_deferral(const message_deferral &) = delete;
  message_deferral &operator=(const message_deferral &) = delete;

  // The last message and the status's name, which the caller logs or does not; what `code` says
  // where there is no message.
  std::string take(status code);

 private:
  bool const is_inner_;
};

}  // namespace tanada
