// products/poold/log/log_file.hpp: the files of a log.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "products/poold/log/format.hpp"
#include "seams/store/store.hpp"

namespace tanada::pool {

struct log_file {
  file_identity identity;
  std::string url;
  port::store_file handle = port::no_store_file;
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;  // of its last record; first_sequence - 1: it has none
  uint64_t size = 0;           // bytes, up to which it holds what counts
  // Behind `size` there may be records that were given up. A later file says so, and must not go
  // before this one.
  bool void_tail = false;
  bool unreadable = false;  // compaction keeps off
  uint32_t user_count = 0;  // reads under way; the handle stays open for them
  bool gone = false;        // unlinked
};

using file_map = std::map<uint64_t, std::shared_ptr<log_file>>;  // by file_sequence

// LOG/log-0123456789abcdef.tnd
std::string file_url(const std::string &folder, uint64_t file_sequence);
// 0: not the URL of a log file.
uint64_t file_sequence_of(const std::string &folder, const std::string &url);

}  // namespace tanada::pool
