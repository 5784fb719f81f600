// backends/mem/mem_store.hpp: mem://name, buffers of this process under a name.
#pragma once

#include <memory>

#include "seams/store/store.hpp"

namespace tanada::port {

// Every mem store of a process sees the same names. Operations run inside post, at memory speed;
// their completions wait for the next poll. Versions are exact. All objects together hold at most
// TND_MEM_STORE_SIZE_MAX bytes (8GiB unless set) in chunks of 256 KiB: more is no_space. invalid if
// the variable does not parse.
result<std::unique_ptr<store>> mem_store_open();

}  // namespace tanada::port
