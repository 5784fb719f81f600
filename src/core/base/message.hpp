// core/base/message.hpp: whether and how the last message of this thread is logged.
#pragma once

#include <string>

#include "core/base/log.hpp"

namespace tanada {

// True if the last message has been logged already, so that a program which prints it would repeat
// it.
bool last_message_is_logged() noexcept;

// Whether TND_LOG enables this level.
bool is_level_logged(log_level level);

// Lets a caller decide whether a failure is logged, and at which level. While it lives, fail() on
// this thread stores its message without logging it. take() passes the message to the caller. A
// message that is replaced by a later one, or never taken, is logged as a warning, as without a
// deferral. Deferrals nest: an inner one leaves its message to the outer one.
class message_deferral {
 public:
  message_deferral() noexcept;
  ~message_deferral();
  message_deferral(const message_deferral &) = delete;
  message_deferral &operator=(const message_deferral &) = delete;

  // Returns the last message with the name of the status, for the caller to log or drop. Without a
  // message, it returns the description of `code`.
  std::string take(status code);

 private:
  bool const is_inner_;
};

// For attempts that a caller repeats, after the first one was logged. While it lives, fail() on
// this thread stores its message, and does not log it. Silences nest.
class message_silence {
 public:
  message_silence() noexcept;
  ~message_silence();
  message_silence(const message_silence &) = delete;
  message_silence &operator=(const message_silence &) = delete;

 private:
  bool const is_inner_;
};

}  // namespace tanada
