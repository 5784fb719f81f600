// backends/etcd/etcd_base64.hpp: base64 of RFC 4648, section 4, as in the JSON of etcd.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::backends {

std::string base64_encode(std::string_view bytes);

// protocol: the text is not canonical base64 with padding.
result<std::string> base64_decode(std::string_view text);

}  // namespace tanada::backends
