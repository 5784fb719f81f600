// core/base/escape.hpp: text that others chose, fit for a log or a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tanada {

// Bytes below 0x20, 0x7f, and the UTF-8 of U+0080 to U+009F, which terminals obey like escape
// sequences, become \xHH, so that no text forges a line or commands a terminal. All others stay:
// the result of escaped text is the same text.
std::string escape_control(std::string_view text);

}  // namespace tanada
