// Encoding and decoding of log files. Every decoded value is checked before its use.
#include "products/poold/log/format.hpp"

#include <xxhash.h>

#include <bit>
#include <cstring>

#include "core/base/checked.hpp"

namespace tanada::pool {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t file_magic = 0x31474F4C444E54AAu;    // "\xAATNDLOG1"
constexpr uint64_t record_magic = 0x31434552444E54BBu;  // "\xBBTNDREC1"
constexpr uint32_t format_version = 1;

struct stored_file_header {
  uint64_t magic, checksum;  // the checksum covers all fields after it
  uint32_t format, block;
  pool_identity pool;
  uint64_t file_sequence, file_id, first_sequence, with_data;
};
static_assert(sizeof(stored_file_header) == 72);

struct stored_record_header {
  uint64_t magic, checksum;  // the checksum covers all fields after it
  uint64_t metadata_checksum;
  pool_identity pool;
  uint64_t file_sequence, file_id, offset, sequence, durable_sequence, size;
  uint32_t metadata_size, change_count;
  uint64_t reserved[4];
};
static_assert(sizeof(stored_record_header) == record_header_size);

// Followed by the namespace, the name, zeros up to a multiple of 8, and the extents.
struct stored_entry {
  uint64_t version, superseded, size, created_ns, checksum, order, data_offset;
  uint32_t flags, extent_count;
  uint16_t space_size, name_size;
  uint8_t kind, checksum_kind, has_name, has_flags;
};
static_assert(sizeof(stored_entry) == 72);
static_assert(sizeof(extent) == 16);

uint64_t checksum_seed(const pool_identity &pool) {
  uint64_t seed;
  std::memcpy(&seed, pool.data(), sizeof seed);
  return seed;
}

// The checksum of a stored header, without its first two words.
template <class Stored>
uint64_t checksum_of_header(const Stored &stored) {
  constexpr size_t skipped = offsetof(Stored, checksum) + sizeof stored.checksum;
  return XXH3_64bits_withSeed(reinterpret_cast<const char *>(&stored) + skipped,
                              sizeof stored - skipped, checksum_seed(stored.pool));
}

template <class Stored>
bool load_header(std::span<const std::byte> bytes, uint64_t magic, Stored &stored) {
  if (bytes.size() < sizeof stored)
    return false;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  return stored.magic == magic && stored.checksum == checksum_of_header(stored);
}

constexpr uint64_t align_to_word(uint64_t size) noexcept {
  return (size + 7) & ~uint64_t{7};
}

// The position of a decoder. Every step is bounds-checked.
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) : remaining_{bytes} {}
  bool take(void *target, uint64_t size) {
    if (size > remaining_.size())
      return false;
    if (size != 0)
      std::memcpy(target, remaining_.data(), size);
    remaining_ = remaining_.subspan(size);
    return true;
  }
  bool take_text(std::string &text, uint64_t size) {
    if (size > remaining_.size())
      return false;
    text.resize(size);
    return take(text.data(), size) && text.find('\0') == std::string::npos;
  }
  bool skip(uint64_t size) {
    if (size > remaining_.size())
      return false;
    remaining_ = remaining_.subspan(size);
    return true;
  }
  size_t remaining_size() const {
    return remaining_.size();
  }

 private:
  std::span<const std::byte> remaining_;
};

bool is_valid(const record_header &header, const log_entry &entry) {
  if (entry.meta.version == 0 || entry.order >= make_order(header.sequence + 1, 0))
    return false;
  if (entry.meta.kind > checksum_kind::xxh3 || entry.superseded_version == entry.meta.version)
    return false;
  if (entry.kind == entry_kind::remove && entry.superseded_version != 0)
    return false;
  if (entry.kind != entry_kind::put) {
    bool const named = entry.kind == entry_kind::amend && entry.has_name;
    return entry.extents.empty() && entry.data_offset == 0 && named == !entry.meta.name.empty();
  }
  if (entry.meta.name.empty())
    return false;
  if (entry.data_offset != 0) {
    return entry.extents.empty() && entry.data_offset % block_size == 0 &&
           range_fits(entry.data_offset, entry.meta.size, header.size);
  }
  uint64_t size = 0;
  for (const auto &range : entry.extents) {
    if (!checked_add(size, range.size, size))
      return false;
  }
  return size == entry.meta.size;
}

bool decode_entry(const record_header &header, size_t index, byte_reader &source,
                  log_entry &entry) {
  stored_entry stored;
  if (!source.take(&stored, sizeof stored))
    return false;
  if (stored.kind < uint8_t(entry_kind::put) || stored.kind > uint8_t(entry_kind::amend))
    return false;
  if (stored.has_name > 1 || stored.has_flags > 1)
    return false;
  entry.kind = entry_kind(stored.kind);
  entry.has_name = stored.has_name != 0;
  entry.has_flags = stored.has_flags != 0;
  entry.order = stored.order != 0 ? stored.order : make_order(header.sequence, index);
  entry.meta.version = stored.version;
  entry.superseded_version = stored.superseded;
  entry.meta.size = stored.size;
  entry.meta.created_ns = stored.created_ns;
  entry.meta.flags = stored.flags;
  entry.meta.kind = checksum_kind(stored.checksum_kind);
  entry.meta.checksum = stored.checksum;
  entry.data_offset = stored.data_offset;
  uint64_t const text_size = uint64_t{stored.space_size} + stored.name_size;
  if (!source.take_text(entry.meta.namespace_name, stored.space_size) ||
      !source.take_text(entry.meta.name, stored.name_size))
    return false;
  if (!source.skip(align_to_word(text_size) - text_size))
    return false;
  if (stored.extent_count > source.remaining_size() / sizeof(extent))
    return false;
  entry.extents.resize(stored.extent_count);
  return source.take(entry.extents.data(), stored.extent_count * sizeof(extent)) &&
         is_valid(header, entry);
}

}  // namespace

uint64_t stored_size(const log_entry &entry) {
  return sizeof(stored_entry) +
         align_to_word(entry.meta.namespace_name.size() + entry.meta.name.size()) +
         entry.extents.size() * sizeof(extent);
}

result<uint64_t> record_head_size(std::span<const log_entry> entries) {
  uint64_t size = 0;
  for (const auto &entry : entries)
    size += stored_size(entry);
  if (size > metadata_size_max || entries.size() > change_count_max)
    return status::too_big;
  return whole_blocks(record_header_size + size);
}

uint64_t record_layout(uint64_t head_size, bool with_data, std::span<log_entry> entries) {
  uint64_t size = head_size;
  for (auto &entry : entries) {
    entry.data_offset = 0;
    if (!with_data || entry.kind != entry_kind::put)
      continue;
    entry.data_offset = size;
    size += whole_blocks(entry.meta.size);
  }
  return size;
}

void encode_file_header(const file_header &header, std::span<std::byte> block) {
  stored_file_header stored{.magic = file_magic,
                            .checksum = 0,
                            .format = format_version,
                            .block = uint32_t(block_size),
                            .pool = header.file.pool,
                            .file_sequence = header.file.file_sequence,
                            .file_id = header.file.file_id,
                            .first_sequence = header.first_sequence,
                            .with_data = header.with_data};
  stored.checksum = checksum_of_header(stored);
  std::memcpy(block.data(), &stored, sizeof stored);
}

std::optional<file_header> decode_file_header(std::span<const std::byte> block) {
  stored_file_header stored;
  if (!load_header(block, file_magic, stored) || stored.format != format_version ||
      stored.block != block_size)
    return {};
  if (stored.first_sequence == 0 || stored.with_data > 1)
    return {};
  return file_header{{stored.pool, stored.file_sequence, stored.file_id},
                     stored.first_sequence,
                     stored.with_data != 0};
}

void encode_record(record_header &header, uint64_t size, std::span<const log_entry> entries,
                   std::span<std::byte> head) {
  std::byte *position = head.data() + record_header_size;
  for (const auto &entry : entries) {
    stored_entry const stored{.version = entry.meta.version,
                              .superseded = entry.superseded_version,
                              .size = entry.meta.size,
                              .created_ns = entry.meta.created_ns,
                              .checksum = entry.meta.checksum,
                              .order = entry.order,
                              .data_offset = entry.data_offset,
                              .flags = entry.meta.flags,
                              .extent_count = uint32_t(entry.extents.size()),
                              .space_size = uint16_t(entry.meta.namespace_name.size()),
                              .name_size = uint16_t(entry.meta.name.size()),
                              .kind = uint8_t(entry.kind),
                              .checksum_kind = uint8_t(entry.meta.kind),
                              .has_name = entry.has_name,
                              .has_flags = entry.has_flags};
    std::memcpy(position, &stored, sizeof stored);
    std::byte *text = position + sizeof stored;
    text = std::copy_n(reinterpret_cast<const std::byte *>(entry.meta.namespace_name.data()),
                       entry.meta.namespace_name.size(), text);
    std::copy_n(reinterpret_cast<const std::byte *>(entry.meta.name.data()), entry.meta.name.size(),
                text);
    std::byte *const ranges =
        position + sizeof stored +
        align_to_word(entry.meta.namespace_name.size() + entry.meta.name.size());
    if (!entry.extents.empty())
      std::memcpy(ranges, entry.extents.data(), entry.extents.size() * sizeof(extent));
    position += stored_size(entry);
  }
  header.size = size;
  header.change_count = uint32_t(entries.size());
  header.metadata_size = uint32_t(position - head.data() - record_header_size);
  sign_record(header, head);
}

void sign_record(record_header &header, std::span<std::byte> head) {
  header.metadata_checksum = XXH3_64bits_withSeed(
      head.data() + record_header_size, header.metadata_size, checksum_seed(header.file.pool));
  stored_record_header stored{.magic = record_magic,
                              .checksum = 0,
                              .metadata_checksum = header.metadata_checksum,
                              .pool = header.file.pool,
                              .file_sequence = header.file.file_sequence,
                              .file_id = header.file.file_id,
                              .offset = header.offset,
                              .sequence = header.sequence,
                              .durable_sequence = header.durable_sequence,
                              .size = header.size,
                              .metadata_size = header.metadata_size,
                              .change_count = header.change_count,
                              .reserved = {}};
  stored.checksum = checksum_of_header(stored);
  std::memcpy(head.data(), &stored, sizeof stored);
}

std::optional<record_header> decode_record_header(std::span<const std::byte> block) {
  stored_record_header stored;
  if (!load_header(block, record_magic, stored))
    return {};
  if (stored.size == 0 || stored.size % block_size != 0 || stored.size > ~uint64_t{0} / 2)
    return {};
  if (stored.sequence == 0 || stored.sequence >= uint64_t{1} << 47 ||
      stored.durable_sequence >= stored.sequence)
    return {};
  if (stored.metadata_size > metadata_size_max || stored.change_count > change_count_max)
    return {};
  if (record_header_size + uint64_t{stored.metadata_size} > stored.size)
    return {};
  return record_header{.file = {stored.pool, stored.file_sequence, stored.file_id},
                       .offset = stored.offset,
                       .sequence = stored.sequence,
                       .durable_sequence = stored.durable_sequence,
                       .size = stored.size,
                       .metadata_checksum = stored.metadata_checksum,
                       .metadata_size = stored.metadata_size,
                       .change_count = stored.change_count};
}

result<std::vector<log_entry>> decode_entries(const record_header &header,
                                              std::span<const std::byte> metadata) {
  if (metadata.size() != header.metadata_size)
    return status::corrupt;
  if (XXH3_64bits_withSeed(metadata.data(), metadata.size(), checksum_seed(header.file.pool)) !=
      header.metadata_checksum) {
    return status::corrupt;
  }
  if (header.change_count > metadata.size() / sizeof(stored_entry))
    return status::corrupt;
  std::vector<log_entry> entries(header.change_count);
  byte_reader source{metadata};
  for (size_t i = 0; i < entries.size(); i++) {
    if (!decode_entry(header, i, source, entries[i]))
      return status::corrupt;
  }
  if (source.remaining_size() != 0)
    return status::corrupt;
  return entries;
}

}  // namespace tanada::pool
