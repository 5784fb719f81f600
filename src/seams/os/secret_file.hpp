// seams/os/secret_file.hpp: files with keys and tokens.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace tanada::seams {

// Returns access, with a message, if users other than this one and root may read or change the
// file; no_entry if it does not exist. `kind` names it in messages, such as "key file".
status check_secret_file(const std::string &path, const std::string &kind);

}  // namespace tanada::seams
