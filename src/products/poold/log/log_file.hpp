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
  seams::store_file handle = seams::no_store_file;
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;  // of its last record; first_sequence - 1: the file is empty
  uint64_t size = 0;           // bytes up to the end of its last valid record
  // Past `size` there may be abandoned records. A later file's header marks them, so that file must
  // not be removed before this one.
  bool has_invalid_tail = false;
  bool is_unreadable = false;  // compaction skips it
  uint32_t user_count = 0;     // reads in flight, for which the handle stays open
  bool is_unlinked = false;    // unlinked
};

using file_map = std::map<uint64_t, std::shared_ptr<log_file>>;  // by file_sequence

// LOG/log-0123456789abcdef.tnd
std::string file_url(const std::string &folder, uint64_t file_sequence);
// 0: not the URL of a log file.
uint64_t file_sequence_of(const std::string &folder, const std::string &url);

}  // namespace tanada::pool
