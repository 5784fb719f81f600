// products/poold/log/scan.hpp: which records a log file holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "products/poold/log/log_file.hpp"
#include "products/poold/log/store_io.hpp"

namespace tanada::pool {

struct scanned_record {
  record_header header;
  std::vector<fact> facts;
  bool whole = false;       // facts hold, and the file is long enough for the data
  const char *reason = "";  // why not
};

// Bytes that are no record though they lie where one should.
struct damaged_range {
  uint64_t begin = 0, end = 0;
};

struct scanned_file {
  std::shared_ptr<log_file> file;
  uint64_t stored_size = 0;  // bytes
  bool header_ok = false;
  bool other_kind = false;  // a log with data where a journal is expected, or the other way round
  std::vector<scanned_record> records;  // in the order of their offsets; sequences rise
  std::vector<damaged_range> damaged;
};

// Opens the file and reads what is not data. Where a record's header is damaged it looks for the
// next one block by block. Fails when the store fails: no conclusion is drawn from bytes that it
// did not give. Of a file without any sound header the identity is that of the name alone.
status scan_file(store_io &io, const std::string &url, bool with_data, uint64_t file_sequence,
                 scanned_file &scanned);

// Writes [begin, end) of a file as it is; corrupt: it is shorter. Fails when the store fails.
status write_again(store_io &io, const log_file &file, uint64_t begin, uint64_t end);

// Whether the bytes match the checksum; sets `matches`. Fails when the store fails.
status verify_data(store_io &io, const log_file &file, uint64_t offset, const object_meta &meta,
                   bool &matches);

}  // namespace tanada::pool
