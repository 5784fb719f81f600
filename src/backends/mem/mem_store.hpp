// backends/mem/mem_store.hpp: mem://name, named buffers of this process.
#pragma once

#include <memory>

#include "seams/store/store.hpp"

namespace tanada::backends {

// All mem stores of a process share the same names. Operations run inside post, at memory speed,
// and their completions wait for the next poll. Versions are exact. All objects together hold at
// most TND_MEM_STORE_SIZE_MAX bytes (8GiB by default) in chunks of 256 KiB. Beyond that, writes
// fail with no_space. invalid: the variable does not parse.
result<std::unique_ptr<seams::store>> mem_store_open();

}  // namespace tanada::backends
