// bench/gfile/gfarm_client.hpp: whole files of Gfarm by libgfarm's own calls, without gfile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace bench {

// Connects this process to the servers of GFARM_CONFIG_FILE. Call it once. All functions throw.
void gfarm_connect();

// Opens the file, passes its bytes to `take` in pieces, and closes it. Returns its size in bytes.
using piece_taker = std::function<void(const uint8_t *bytes, size_t size)>;
uint64_t gfarm_read(const std::string &url, size_t piece_size, const piece_taker &take);

// Creates or replaces the file.
void gfarm_write(const std::string &url, const std::string &bytes);

// The same with bytes that `give` writes piece by piece, on that server. gfreg stores at most 2
// GiB.
using piece_giver = std::function<void(uint64_t offset, uint8_t *bytes, size_t size)>;
void gfarm_create(const std::string &url,
                  const std::string &host,
                  uint64_t size,
                  const piece_giver &give);

}  // namespace bench
