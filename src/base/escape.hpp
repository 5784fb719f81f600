// base/escape.hpp: text that others chose, fit for a log or a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tanada {

// Bytes below 0x20 and 0x7f become \xHH, so that no text forges a line or commands a terminal. All others stay: the result
// of escaped text is the same text.
std::string escape_control(std::string_view text);

}  // namespace tanada
