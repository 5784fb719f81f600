// products/pool/web/page.hpp: page.html as a string. The build generates page.cc from it.
#pragma once

#include <string_view>

namespace tanada::pool {

extern const std::string_view page_html;

}  // namespace tanada::pool
