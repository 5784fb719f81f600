// core/base/message.hpp: what became of this thread's last message.
#pragma once

namespace tanada {

// True when the last message was logged already, so that a program which prints it says it a second
// time.
bool last_message_is_logged() noexcept;

}  // namespace tanada
