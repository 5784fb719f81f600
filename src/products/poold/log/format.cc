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
  uint64_t magic, checksum;  // the checksum is of what follows it
  uint32_t format, block;
  pool_identity pool;
  uint64_t file_sequence, file_id, first_sequence, with_data;
};
static_assert(sizeof(stored_file_header) == 72);

struct stored_record_header {
  uint64_t magic, checksum;  // the checksum is of what follows it
  uint64_t metadata_checksum;
  pool_identity pool;
  uint64_t file_sequence, file_id, offset, sequence, durable_sequence, size;
  uint32_t metadata_size, change_count;
  uint64_t reserved[4];
};
static_assert(sizeof(stored_record_header) == record_header_size);

// Followed by the namespace, the name, zeros up to a multiple of 8, and the extents.
struct stored_fact {
  uint64_t version, superseded, size, created_ns, checksum, order, data_offset;
  uint32_t flags, extent_count;
  uint16_t space_size, name_size;
  uint8_t kind, checksum_kind, has_name, has_flags;
};
static_assert(sizeof(stored_fact) == 72);
static_assert(sizeof(extent) == 16);

uint64_t seed_of(const pool_identity &pool) {
  uint64_t seed;
  std::memcpy(&seed, pool.data(), sizeof seed);
  return seed;
}

// The checksum of a stored header behind its first two words.
template <class Stored>
uint64_t checksum_of_header(const Stored &stored) {
  constexpr size_t skipped = offsetof(Stored, checksum) + sizeof stored.checksum;
  return XXH3_64bits_withSeed(reinterpret_cast<const char *>(&stored) + skipped,
                              sizeof stored - skipped, seed_of(stored.pool));
}

template <class Stored>
bool load(std::span<const std::byte> bytes, uint64_t magic, Stored &stored) {
  if (bytes.size() < sizeof stored)
    return false;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  return stored.magic == magic && stored.checksum == checksum_of_header(stored);
}

constexpr uint64_t padded(uint64_t size) noexcept {
  return (size + 7) & ~uint64_t{7};
}

// Where decoding stands; every step is checked.
class reader {
 public:
  explicit reader(std::span<const std::byte> bytes) : left_{bytes} {}
  bool take(void *target, uint64_t size) {
    if (size > left_.size())
      return false;
    if (size != 0)
      std::memcpy(target, left_.data(), size);
    left_ = left_.subspan(size);
    return true;
  }
  bool take_text(std::string &text, uint64_t size) {
    if (size > left_.size())
      return false;
    text.resize(size);
    return take(text.data(), size) && text.find('\0') == std::string::npos;
  }
  bool skip(uint64_t size) {
    if (size > left_.size())
      return false;
    left_ = left_.subspan(size);
    return true;
  }
  size_t left() const {
    return left_.size();
  }

 private:
  std::span<const std::byte> left_;
};

bool sound(const record_header &header, const fact &each) {
  if (each.meta.version == 0 || each.order >= order_of(header.sequence + 1, 0))
    return false;
  if (each.meta.kind > checksum_kind::xxh3 || each.superseded == each.meta.version)
    return false;
  if (each.kind == fact_kind::remove && each.superseded != 0)
    return false;
  if (each.kind != fact_kind::put) {
    bool const named = each.kind == fact_kind::amend && each.has_name;
    return each.extents.empty() && each.data_offset == 0 && named == !each.meta.name.empty();
  }
  if (each.meta.name.empty())
    return false;
  if (each.data_offset != 0) {
    return each.extents.empty() && each.data_offset % block_size == 0 &&
           range_fits(each.data_offset, each.meta.size, header.size);
  }
  uint64_t size = 0;
  for (const auto &range : each.extents) {
    if (!checked_add(size, range.size, size))
      return false;
  }
  return size == each.meta.size;
}

bool decode_fact(const record_header &header, size_t index, reader &from, fact &each) {
  stored_fact stored;
  if (!from.take(&stored, sizeof stored))
    return false;
  if (stored.kind < uint8_t(fact_kind::put) || stored.kind > uint8_t(fact_kind::amend))
    return false;
  if (stored.has_name > 1 || stored.has_flags > 1)
    return false;
  each.kind = fact_kind(stored.kind);
  each.has_name = stored.has_name != 0;
  each.has_flags = stored.has_flags != 0;
  each.order = stored.order != 0 ? stored.order : order_of(header.sequence, index);
  each.meta.version = stored.version;
  each.superseded = stored.superseded;
  each.meta.size = stored.size;
  each.meta.created_ns = stored.created_ns;
  each.meta.flags = stored.flags;
  each.meta.kind = checksum_kind(stored.checksum_kind);
  each.meta.checksum = stored.checksum;
  each.data_offset = stored.data_offset;
  uint64_t const text_size = uint64_t{stored.space_size} + stored.name_size;
  if (!from.take_text(each.meta.space, stored.space_size) ||
      !from.take_text(each.meta.name, stored.name_size))
    return false;
  if (!from.skip(padded(text_size) - text_size))
    return false;
  if (stored.extent_count > from.left() / sizeof(extent))
    return false;
  each.extents.resize(stored.extent_count);
  return from.take(each.extents.data(), stored.extent_count * sizeof(extent)) &&
         sound(header, each);
}

}  // namespace

uint64_t stored_size(const fact &each) {
  return sizeof(stored_fact) + padded(each.meta.space.size() + each.meta.name.size()) +
         each.extents.size() * sizeof(extent);
}

result<uint64_t> record_head_size(std::span<const fact> facts) {
  uint64_t size = 0;
  for (const auto &each : facts)
    size += stored_size(each);
  if (size > metadata_size_max || facts.size() > change_count_max)
    return status::too_big;
  return whole_blocks(record_header_size + size);
}

uint64_t record_layout(uint64_t head_size, bool with_data, std::span<fact> facts) {
  uint64_t size = head_size;
  for (auto &each : facts) {
    each.data_offset = 0;
    if (!with_data || each.kind != fact_kind::put)
      continue;
    each.data_offset = size;
    size += whole_blocks(each.meta.size);
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
  if (!load(block, file_magic, stored) || stored.format != format_version ||
      stored.block != block_size)
    return {};
  if (stored.first_sequence == 0 || stored.with_data > 1)
    return {};
  return file_header{{stored.pool, stored.file_sequence, stored.file_id},
                     stored.first_sequence,
                     stored.with_data != 0};
}

void encode_record(record_header &header, uint64_t size, std::span<const fact> facts,
                   std::span<std::byte> head) {
  std::byte *at = head.data() + record_header_size;
  for (const auto &each : facts) {
    stored_fact const stored{.version = each.meta.version,
                             .superseded = each.superseded,
                             .size = each.meta.size,
                             .created_ns = each.meta.created_ns,
                             .checksum = each.meta.checksum,
                             .order = each.order,
                             .data_offset = each.data_offset,
                             .flags = each.meta.flags,
                             .extent_count = uint32_t(each.extents.size()),
                             .space_size = uint16_t(each.meta.space.size()),
                             .name_size = uint16_t(each.meta.name.size()),
                             .kind = uint8_t(each.kind),
                             .checksum_kind = uint8_t(each.meta.kind),
                             .has_name = each.has_name,
                             .has_flags = each.has_flags};
    std::memcpy(at, &stored, sizeof stored);
    std::byte *text = at + sizeof stored;
    text = std::copy_n(reinterpret_cast<const std::byte *>(each.meta.space.data()),
                       each.meta.space.size(), text);
    std::copy_n(reinterpret_cast<const std::byte *>(each.meta.name.data()), each.meta.name.size(),
                text);
    std::byte *const ranges =
        at + sizeof stored + padded(each.meta.space.size() + each.meta.name.size());
    if (!each.extents.empty())
      std::memcpy(ranges, each.extents.data(), each.extents.size() * sizeof(extent));
    at += stored_size(each);
  }
  header.size = size;
  header.change_count = uint32_t(facts.size());
  header.metadata_size = uint32_t(at - head.data() - record_header_size);
  sign_record(header, head);
}

void sign_record(record_header &header, std::span<std::byte> head) {
  header.metadata_checksum = XXH3_64bits_withSeed(head.data() + record_header_size,
                                                  header.metadata_size, seed_of(header.file.pool));
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
  if (!load(block, record_magic, stored))
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

result<std::vector<fact>> decode_facts(const record_header &header,
                                       std::span<const std::byte> metadata) {
  if (metadata.size() != header.metadata_size)
    return status::corrupt;
  if (XXH3_64bits_withSeed(metadata.data(), metadata.size(), seed_of(header.file.pool)) !=
      header.metadata_checksum) {
    return status::corrupt;
  }
  if (header.change_count > metadata.size() / sizeof(stored_fact))
    return status::corrupt;
  std::vector<fact> facts(header.change_count);
  reader from{metadata};
  for (size_t i = 0; i < facts.size(); i++) {
    if (!decode_fact(header, i, from, facts[i]))
      return status::corrupt;
  }
  if (from.left() != 0)
    return status::corrupt;
  return facts;
}

}  // namespace tanada::pool
