// seams/os/record_file.hpp: a small file that is replaced again and again, for any reader.
//
// A new file that takes the name of the old one by rename() has a name of its own until then.
// A process that is killed in between leaves that name, and nobody is there to remove it.
// A record has at most a page. One system call writes it in place, which a signal does not cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::port {

inline constexpr size_t record_size_max = 4096;

/// Makes `text` the content of the file, which appears as a whole if there is none.
/// A file of another size is removed first.
/// A process that is killed leaves the old content, the new one, or no file.
/// Writers of equal sizes never remove the file, so give numbers a constant width.
///
/// **Locking** the file is locked (flock) while it is written in place.
/// So a reader with a shared lock has a whole record.
/// A file system without flock is written without.
/// **Returns** again: a reader held its lock for `patience_ns`. Otherwise the system's error.
/// Each has a message, which is not logged.
status replace_record(const std::string &path, std::string_view text, uint64_t patience_ns);

}  // namespace tanada::port
