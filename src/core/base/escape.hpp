// core/base/escape.hpp: makes untrusted text safe for a log or a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tanada {

// Replaces control characters by \xHH, so that no text can forge a line or control a terminal.
// These are the bytes below 0x20, 0x7f, and the UTF-8 of U+0080 to U+009F, which terminals treat
// like escape sequences. All other bytes stay, so escaping a result again does not change it.
std::string escape_control(std::string_view text);

}  // namespace tanada
