// backends/file/file_store.hpp: file:///path and plain paths.
#pragma once

#include <memory>

#include "seams/store/store.hpp"

namespace tanada::port {

// Reads, writes and syncs go through io_uring, one ring a queue; the rest, and everything where
// io_uring is refused (said once at info level) or TND_IO_URING=off, through worker threads.
//
// TND_FILE_DIRECT=auto|on|off: whether aligned reads pass the page cache by with O_DIRECT. `auto`
// does so for reads of 1 MiB or more, 4096-aligned in offset, sizes and addresses, of which the
// page cache does not hold the first page; `on` for every aligned read; both only of files whose
// file system takes O_DIRECT.
//
// A URL's path is taken as it is: no percent-decoding. invalid if a variable does not parse.
result<std::unique_ptr<store>> file_store_open();

}  // namespace tanada::port
