// products/pool/web/page.hpp: page.html as a string; the build makes page.cc of it.
#pragma once

#include <string_view>

namespace tanada::pool {

extern const std::string_view page_html;

}  // namespace tanada::pool
