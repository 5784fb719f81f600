// Encoding and decoding of log files. Every decoded value is checked before its use.
#include "products/poold/log/format.hpp"

#include <xxhash.h>

#include <bit>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"

namespace tanada::pool {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t file_magic = 0x31474F4C444E54AAu;    // "\xAATNDLOG1"
constexpr uint64_t record_magic = 0x31434552444E54BBu;  // "\xBBTNDREC1"
constexpr uint32_t format_version = 2, oldest_format = 1;
constexpr uint64_t head_data_size_max = block_size - 1;         // of one put
constexpr uint64_t all_head_data_size_max = uint64_t{1} << 20;  // of a record

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
  uint16_t namespace_size, name_size;
  uint8_t kind, checksum_kind, has_name, has_flags;
};
static_assert(sizeof(stored_entry) == 72);
static_assert(sizeof(extent) == 16);
static_assert(namespace_size_max <= UINT16_MAX && name_size_max <= UINT16_MAX);
static_assert(change_count_max <= UINT16_MAX);  // an order has 16 bits for the change's index
static_assert(record_header_size < block_size && block_size % 8 == 0);

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
                              sizeof stored - skipped,
                              checksum_seed(stored.pool));
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

// Whether a put's data or extents have its size.
bool has_valid_ranges(const record_header &header, const log_entry &put) {
  if (put.data_offset != 0) {
    return put.extents.empty() && put.data_offset == align_to_word(put.data_offset) &&
           put.data_offset >= record_header_size + uint64_t{header.metadata_size} &&
           range_fits(put.data_offset, put.meta.size, header.size);
  }
  uint64_t size = 0;
  for (const auto &range : put.extents) {
    if (!checked_add(size, range.size, size))
      return false;
  }
  return size == put.meta.size;
}

bool is_valid(const record_header &header, const log_entry &entry) {
  if (entry.meta.version == 0 || entry.order >= make_order(header.sequence + 1, 0))
    return false;
  if (entry.meta.kind > checksum_kind::xxh3 || entry.superseded_version == entry.meta.version)
    return false;
  if (entry.kind == entry_kind::remove && entry.superseded_version != 0)
    return false;
  if (entry.kind == entry_kind::put)
    return !entry.meta.name.empty() && has_valid_ranges(header, entry);
  bool const named = entry.kind == entry_kind::amend && entry.has_name;
  return entry.extents.empty() && entry.data_offset == 0 && named == !entry.meta.name.empty();
}

// Whether the fields that have an enumeration or a truth value have one of its values.
bool has_valid_values(const stored_entry &stored) {
  return stored.kind >= uint8_t(entry_kind::put) && stored.kind <= uint8_t(entry_kind::amend) &&
         stored.has_name <= 1 && stored.has_flags <= 1;
}

void load_fields(const stored_entry &stored, log_entry &entry) {
  entry.kind = entry_kind(stored.kind);
  entry.has_name = stored.has_name != 0;
  entry.has_flags = stored.has_flags != 0;
  entry.order = stored.order;
  entry.superseded_version = stored.superseded;
  entry.data_offset = stored.data_offset;
  entry.meta.version = stored.version;
  entry.meta.size = stored.size;
  entry.meta.created_ns = stored.created_ns;
  entry.meta.flags = stored.flags;
  entry.meta.kind = checksum_kind(stored.checksum_kind);
  entry.meta.checksum = stored.checksum;
}

bool decode_entry(const record_header &header,
                  size_t index,
                  byte_reader &source,
                  log_entry &entry) {
  stored_entry stored;
  if (!source.take(&stored, sizeof stored) || !has_valid_values(stored))
    return false;
  load_fields(stored, entry);
  if (entry.order == 0)
    entry.order = make_order(header.sequence, index);
  uint64_t const text_size = uint64_t{stored.namespace_size} + stored.name_size;
  if (!source.take_text(entry.meta.namespace_name, stored.namespace_size) ||
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

stored_entry store_fields(const log_entry &entry) {
  return {.version = entry.meta.version,
          .superseded = entry.superseded_version,
          .size = entry.meta.size,
          .created_ns = entry.meta.created_ns,
          .checksum = entry.meta.checksum,
          .order = entry.order,
          .data_offset = entry.data_offset,
          .flags = entry.meta.flags,
          .extent_count = uint32_t(entry.extents.size()),
          .namespace_size = uint16_t(entry.meta.namespace_name.size()),
          .name_size = uint16_t(entry.meta.name.size()),
          .kind = uint8_t(entry.kind),
          .checksum_kind = uint8_t(entry.meta.kind),
          .has_name = entry.has_name,
          .has_flags = entry.has_flags};
}

// Encode a change into stored_size() zero bytes.
void encode_entry(const log_entry &entry, std::span<std::byte> target) {
  TND_ASSERT(target.size() == stored_size(entry));
  TND_ASSERT(entry.meta.namespace_name.size() <= UINT16_MAX);
  TND_ASSERT(entry.meta.name.size() <= UINT16_MAX);
  stored_entry const stored = store_fields(entry);
  std::memcpy(target.data(), &stored, sizeof stored);
  std::string const text = entry.meta.namespace_name + entry.meta.name;
  std::memcpy(target.data() + sizeof stored, text.data(), text.size());
  uint64_t const extents_size = entry.extents.size() * sizeof(extent);
  if (extents_size != 0)
    std::memcpy(target.last(extents_size).data(), entry.extents.data(), extents_size);
}

}  // namespace

uint64_t stored_size(size_t text_size, size_t extent_count) {
  return sizeof(stored_entry) + align_to_word(text_size) + extent_count * sizeof(extent);
}

uint64_t stored_size(const log_entry &entry) {
  return stored_size(entry.meta.namespace_name.size() + entry.meta.name.size(),
                     entry.extents.size());
}

uint64_t head_data_size(uint64_t size) {
  return size <= head_data_size_max ? align_to_word(size) : 0;
}

uint64_t head_data_size(const log_entry &entry, bool with_data) {
  bool const has_data = with_data && entry.kind == entry_kind::put;
  return has_data ? head_data_size(entry.meta.size) : 0;
}

result<record_sizes> lay_out_record(bool with_data, std::span<log_entry> entries) {
  uint64_t metadata_size = 0;
  for (const auto &entry : entries)
    metadata_size += stored_size(entry);
  if (metadata_size > metadata_size_max || entries.size() > change_count_max)
    return status::too_big;
  uint64_t const begin = record_header_size + metadata_size;
  uint64_t end = begin;
  for (auto &entry : entries) {
    entry.data_offset = 0;
    uint64_t const size = head_data_size(entry, with_data);
    if (size == 0 || end - begin + size > all_head_data_size_max)
      continue;
    entry.data_offset = end;
    end += size;
  }
  record_sizes sizes{.head = whole_blocks(end), .record = whole_blocks(end)};
  for (auto &entry : entries) {
    if (!with_data || entry.kind != entry_kind::put || entry.data_offset != 0)
      continue;
    entry.data_offset = sizes.record;
    sizes.record += whole_blocks(entry.meta.size);
  }
  return sizes;
}

bool record_packer::add(uint64_t metadata_size, uint64_t data_size) {
  uint64_t const size =
      record_header_size + metadata_size_ + metadata_size + data_size_ + data_size;
  bool const fits = record_header_size + metadata_size_ + metadata_size <= block_size &&
                    whole_blocks(size) <= limit_;
  if (count_ != 0 && !fits)
    return false;
  metadata_size_ += metadata_size;
  data_size_ += data_size;
  count_++;
  double const share = double(size) / double(whole_blocks(size));
  if (share >= best_share_ || best_count_ == 0) {
    best_share_ = share;
    best_count_ = count_;
  }
  return fits;
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
  TND_ASSERT(block.size() >= sizeof stored);
  stored.checksum = checksum_of_header(stored);
  std::memcpy(block.data(), &stored, sizeof stored);
}

bool has_unknown_format(std::span<const std::byte> block) {
  stored_file_header stored;
  return load_header(block, file_magic, stored) &&
         (stored.format < oldest_format || stored.format > format_version);
}

std::optional<file_header> decode_file_header(std::span<const std::byte> block) {
  stored_file_header stored;
  if (has_unknown_format(block) || !load_header(block, file_magic, stored) ||
      stored.block != block_size)
    return {};
  if (stored.first_sequence == 0 || stored.with_data > 1)
    return {};
  return file_header{{stored.pool, stored.file_sequence, stored.file_id},
                     stored.first_sequence,
                     stored.with_data != 0};
}

void encode_record(record_header &header,
                   uint64_t size,
                   std::span<const log_entry> entries,
                   std::span<std::byte> head) {
  uint64_t position = record_header_size;
  for (const auto &entry : entries) {
    uint64_t const entry_size = stored_size(entry);
    TND_ASSERT(range_fits(position, entry_size, head.size()));
    encode_entry(entry, head.subspan(position, entry_size));
    position += entry_size;
  }
  header.size = size;
  header.change_count = uint32_t(entries.size());
  header.metadata_size = uint32_t(position - record_header_size);
  sign_record(header, head);
}

void sign_record(record_header &header, std::span<std::byte> head) {
  TND_ASSERT(record_header_size + uint64_t{header.metadata_size} <= head.size());
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
