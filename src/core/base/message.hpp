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

// For a program whose failure this thread's next one may be: while it lives, fail() of this thread
// keeps its message and leaves it to the program to log it, at the level that it has there. One
// that a later message replaces, or that is left at the end, is logged as a warning, as without
// this.
class message_deferral {
 public:
  message_deferral() noexcept;
  ~message_deferral();
  message_deferral(const message_deferral &) = delete;
  message_deferral &operator=(const message_deferral &) = delete;

  // The last message and the status's name, for the program to log; what `code` says where there is
  // no message.
  std::string take(status code);
};

}  // namespace tanada
