// seams/os/durable_file.hpp: small files that survive a crash of the machine.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::seams {

/// Makes `text` the content of the file, which only its owner may read. Returns once that is
/// durable. After a crash the file has the old content or the new one, or does not exist as before.
///
/// **Returns** the system's error, with a message, which is logged.
status write_durable_file(const std::string &path, std::string_view text);

}  // namespace tanada::seams
