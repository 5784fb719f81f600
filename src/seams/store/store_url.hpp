// seams/store/store_url.hpp: the scheme of a URL, which selects its store.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::seams {

// "file", "mem", "gfarm", ...; "file" for a plain path. invalid for an empty URL or a malformed
// scheme.
result<std::string> url_scheme(std::string_view url);

}  // namespace tanada::seams
