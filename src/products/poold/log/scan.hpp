// products/poold/log/scan.hpp: the search for the records of a log file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "products/poold/log/log_file.hpp"
#include "products/poold/log/store_io.hpp"

namespace tanada::pool {

struct scanned_record {
  record_header header;
  std::vector<log_entry> entries;
  bool is_complete = false;  // the changes are valid, and the file is long enough for the data
  const char *reason = "";   // why it is not complete
};

// Bytes that should be a record and are not.
struct damaged_range {
  uint64_t begin = 0, end = 0;
};

struct scanned_file {
  std::shared_ptr<log_file> file;
  uint64_t stored_size = 0;  // bytes
  bool is_header_valid = false;
  bool has_unknown_format = false;  // written by a later version of this program
  bool is_other_kind = false;       // a log with data where a journal is expected, or vice versa
  std::vector<scanned_record> records;  // by ascending offset and sequence
  std::vector<damaged_range> damaged_ranges;
};

// Opens the file and reads everything except data. After a damaged record header it searches for
// the next one block by block. Returns the store's status if it fails; no conclusion is drawn from
// bytes that could not be read. In a file without any valid header, only the file sequence is
// known.
status scan_file(store_io &io,
                 const std::string &url,
                 bool with_data,
                 uint64_t file_sequence,
                 scanned_file &scanned);

// Rewrites [begin, end) of a file unchanged. corrupt: the file is shorter. Otherwise the store's
// status.
status rewrite_range(store_io &io, const log_file &file, uint64_t begin, uint64_t end);

// Sets `matches` to whether the bytes match the checksum. Returns the store's status if it fails.
status verify_data(
    store_io &io, const log_file &file, uint64_t offset, const object_meta &meta, bool &matches);

}  // namespace tanada::pool
