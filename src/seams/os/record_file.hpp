// seams/os/record_file.hpp: a small file that is replaced again and again, for any reader.
//
// A new file that replaces the old one by rename() has a name of its own until then. A process that
// is killed in between leaves that name, and no other process removes it. A record has at most a
// page. One system call writes it in place, which a signal does not interrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::seams {

inline constexpr size_t record_size_max = 4096;

/// Makes `text` the content of the file, which appears as a whole if it did not exist.
/// A file of another size is removed first.
/// A process that is killed leaves the old content, the new one, or no file.
/// Writers of equal sizes never remove the file, so give numbers a constant width.
///
/// **Locking** the file is locked (flock) while it is written in place. A reader with a shared lock
/// therefore has a whole record. On a file system without flock it is written without a lock.
///
/// **Returns** again: a reader held its lock for `timeout_ns`. Otherwise the system's error. Each
/// has a message, which is not logged.
status replace_record(const std::string &path, std::string_view text, uint64_t timeout_ns);

}  // namespace tanada::seams
