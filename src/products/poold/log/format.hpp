// products/poold/log/format.hpp: the bytes of log files. All numbers are little endian, as the
// processors are that we run on.
//
// A file is a header block and records, each at a multiple of 4096: a header and the changes'
// metadata, padded, then the data of each put, padded each. A record says where it lies (pool,
// file, offset) and which one it is (sequence, counted through all files), so that a stale or
// misdirected block is none; and up to which record all were synced when it was written, so that
// damage is told from what a crash has cut off.
#pragma once

#include <optional>

#include "core/base/result.hpp"
#include "products/poold/log/block_buffer.hpp"
#include "products/poold/log/types.hpp"

namespace tanada::pool {

// Which file: what every record in it repeats.
struct file_identity {
  pool_identity pool{};
  uint64_t file_sequence = 0;  // in its name, too
  uint64_t file_id = 0;        // drawn when the file is made

  bool operator==(const file_identity &) const = default;
};

struct file_header {
  file_identity file;
  uint64_t first_sequence =
      0;  // of the first record; what an earlier file has from there on was given up
  bool with_data = false;  // every put has its data in its record; else none has
};

struct record_header {
  file_identity file;
  uint64_t offset = 0;            // bytes, in the file
  uint64_t sequence = 0;          // from 1, no gaps
  uint64_t durable_sequence = 0;  // below sequence: all records up to it were synced
  uint64_t size = 0;              // bytes, whole blocks
  uint64_t metadata_checksum = 0;
  uint32_t metadata_size = 0;  // bytes
  uint32_t change_count = 0;
};

inline constexpr size_t record_header_size = 128;  // bytes; the metadata follows

enum class fact_kind : uint8_t { put = 1, remove = 2, amend = 3 };

// One change as it is stored. `order` puts the names and flags of an object in a line: a copy that
// compaction makes has that of the last change it tells, however late it is written.
struct fact {
  fact_kind kind = fact_kind::put;
  bool has_name = false, has_flags = false;  // amend: what it changes
  uint64_t order = 0;                        // 0 when encoded: that of the record
  uint64_t superseded = 0;  // put, amend: the version that had the name, and is gone; 0: none
  object_meta meta;
  std::vector<extent> extents;
  uint64_t data_offset = 0;  // bytes, from the record's start; put with data
};

constexpr uint64_t order_of(uint64_t sequence, size_t index) noexcept {
  return sequence << 16 | index;
}

// Bytes of the fact's metadata.
uint64_t stored_size(const fact &each);

// Bytes of header and metadata, whole blocks; too_big.
result<uint64_t> record_head_size(std::span<const fact> facts);

// Lay out the data of the puts behind the head: sets data_offset, returns the size of the record.
uint64_t record_layout(uint64_t head_size, bool with_data, std::span<fact> facts);

void encode_file_header(const file_header &header, std::span<std::byte> block);
std::optional<file_header> decode_file_header(std::span<const std::byte> block);

// header.metadata_*, size and change_count are filled in. `head` is of record_head_size() and zero.
void encode_record(record_header &header, uint64_t size, std::span<const fact> facts,
                   std::span<std::byte> head);

// Write the header in front of the metadata that `head` holds, header.metadata_size bytes; fills in
// its checksum.
void sign_record(record_header &header, std::span<std::byte> head);

// Nothing where the block is no record's first, or not a sound one.
std::optional<record_header> decode_record_header(std::span<const std::byte> block);

// `metadata` is of header.metadata_size bytes. corrupt.
result<std::vector<fact>> decode_facts(const record_header &header,
                                       std::span<const std::byte> metadata);

}  // namespace tanada::pool
