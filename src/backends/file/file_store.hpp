// backends/file/file_store.hpp: file:///path and plain paths.
#pragma once

#include <memory>

#include "seams/store/store.hpp"

namespace tanada::backends {

// Reads, writes and syncs go through io_uring, one ring for each queue. All other operations use
// worker threads. If io_uring is refused (logged once at info level) or TND_IO_URING=off, all
// operations use worker threads.
//
// TND_FILE_DIRECT=auto|on|off selects whether aligned reads bypass the page cache with O_DIRECT.
// `auto` does so for reads of at least 1 MiB, aligned to 4096 in offset, sizes and addresses, whose
// first page is not in the page cache. `on` does so for every aligned read. Both apply only to
// files whose file system supports O_DIRECT.
//
// The path of a URL is not percent-decoded. invalid: a variable does not parse.
result<std::unique_ptr<seams::store>> file_store_open();

}  // namespace tanada::backends
