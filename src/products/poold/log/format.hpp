// products/poold/log/format.hpp: the format of log files. All numbers are little endian, as on the
// supported processors.
//
// A file is a header block followed by records, each at a multiple of 4096. A record is its head,
// padded, then the data of large puts, each padded. The head is a header, the changes' metadata,
// and the data of small puts. The changes of several transactions may share a record. They are then
// durable together, or none of them is. Files of format 1 have all data after the head, and one
// transaction in a record. They are read, and not written any more. A record contains its
// position (pool, file, offset) and its sequence number, which is counted through all files. A
// stale or misdirected block is therefore never taken for a record. A record also contains the
// number of the last record that was synced when it was written. This distinguishes damage from
// the tail that a crash has cut off.
#pragma once

#include <optional>

#include "core/base/result.hpp"
#include "products/poold/log/block_buffer.hpp"
#include "products/poold/log/types.hpp"

namespace tanada::pool {

// The identity of a file, which each of its records repeats.
struct file_identity {
  pool_identity pool{};
  uint64_t file_sequence = 0;  // also part of its name
  uint64_t file_id = 0;        // drawn when the file is created

  bool operator==(const file_identity &) const = default;
};

struct file_header {
  file_identity file;
  uint64_t first_sequence =
      0;  // of the first record; records of earlier files from there on are abandoned
  bool with_data = false;  // true: all puts have their data in their records; false: none has
};

struct record_header {
  file_identity file;
  uint64_t offset = 0;            // in the file
  uint64_t sequence = 0;          // from 1, consecutive
  uint64_t durable_sequence = 0;  // below `sequence`: all records up to it were synced
  uint64_t size = 0;              // bytes, whole blocks
  uint64_t metadata_checksum = 0;
  uint32_t metadata_size = 0;  // bytes
  uint32_t change_count = 0;
};

inline constexpr size_t record_header_size = 128;  // bytes; the metadata follows

enum class entry_kind : uint8_t { put = 1, remove = 2, amend = 3 };

// One change as it is stored. `order` orders the changes of an object's name and flags. A copy that
// compaction writes has the order of the last change that it includes, however late it is written.
struct log_entry {
  entry_kind kind = entry_kind::put;
  bool has_name = false, has_flags = false;  // amend: the changed fields
  uint64_t order = 0;                        // 0 when encoded: derived from the record
  uint64_t superseded_version = 0;  // put, amend: the removed version that had the name; 0: none
  object_meta meta;
  std::vector<extent> extents;
  uint64_t data_offset = 0;  // put with data: from the record's start
};

constexpr uint64_t make_order(uint64_t sequence, size_t index) noexcept {
  return sequence << 16 | index;
}

// The stored size of the change's metadata.
uint64_t stored_size(const log_entry &entry);
uint64_t stored_size(size_t text_size, size_t extent_count);

// The size in the head of a record that the data of a put of `size` bytes take; 0: they lie after
// the head.
uint64_t head_data_size(uint64_t size);
uint64_t head_data_size(const log_entry &entry, bool with_data);

struct record_sizes {
  uint64_t head = 0, record = 0;  // bytes, whole blocks
};

// Lay out a record: set each data_offset. too_big: more metadata or changes than types.hpp allows.
result<record_sizes> lay_out_record(bool with_data, std::span<log_entry> entries);

// Chooses how many parts, added in order, share one record. The metadata has one block, so that a
// damaged block affects few objects. Not thread-safe.
class record_packer {
 public:
  static constexpr uint64_t size_max = 16 * block_size;  // of a record, unless the first is larger

  explicit record_packer(uint64_t limit = size_max) : limit_{limit} {}

  // False: the part does not fit, and no further one may be added.
  bool add(uint64_t metadata_size, uint64_t data_size);

  // The number of parts with which the record has the least padding; at least 1.
  size_t count() const noexcept {
    return best_count_;
  }

 private:
  uint64_t limit_, metadata_size_ = 0, data_size_ = 0;
  size_t count_ = 0, best_count_ = 0;
  double best_share_ = 0;  // of the record that is not padding
};

// Whether the block is a valid file header in a format that this program does not know.
bool has_unknown_format(std::span<const std::byte> block);

void encode_file_header(const file_header &header, std::span<std::byte> block);
std::optional<file_header> decode_file_header(std::span<const std::byte> block);

// Encode a record's head into `head`, which has record_sizes::head zero bytes, except for the data
// in it. Fills in header.metadata_*, size and change_count.
void encode_record(record_header &header,
                   uint64_t size,
                   std::span<const log_entry> entries,
                   std::span<std::byte> head);

// Write the header before the header.metadata_size bytes of metadata in `head`. Fills in their
// checksum.
void sign_record(record_header &header, std::span<std::byte> head);

// Empty if the block does not begin a valid record.
std::optional<record_header> decode_record_header(std::span<const std::byte> block);

// `metadata` has header.metadata_size bytes. corrupt: the checksum or a value is wrong.
result<std::vector<log_entry>> decode_entries(const record_header &header,
                                              std::span<const std::byte> metadata);

}  // namespace tanada::pool
