// Encoding and decoding of log files, also with flipped bits.
#include "products/poold/log/format.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tanada::pool {
namespace {

struct encoded {
  record_header header;
  block_buffer head;
};

encoded encode(std::vector<log_entry> entries, bool with_data) {
  encoded record;
  record.header.file = {.pool = {1, 2, 3}, .file_sequence = 4, .file_id = 5};
  record.header.offset = 8192;
  record.header.sequence = 7;
  record.header.durable_sequence = 6;
  record_sizes const sizes = lay_out_record(with_data, entries).value();
  record.head = block_buffer{sizes.head};
  encode_record(record.header, sizes.record, entries, record.head.span());
  return record;
}

std::vector<log_entry> some_facts() {
  std::vector<log_entry> entries(3);
  entries[0].meta = {.namespace_name = "space",
                     .name = "name",
                     .version = 9,
                     .size = 5'000,
                     .created_ns = 3,
                     .flags = 4,
                     .kind = checksum_kind::crc32c,
                     .checksum = 77};
  entries[0].superseded_version = 8;
  entries[1].kind = entry_kind::remove;
  entries[1].meta.version = 5;
  entries[2].kind = entry_kind::amend;
  entries[2].has_name = true;
  entries[2].has_flags = true;
  entries[2].order = 3;
  entries[2].meta.version = 6;
  entries[2].meta.name = "other";
  entries[2].meta.flags = 8;
  return entries;
}

TEST(pool_log_format, a_record_comes_back) {
  auto const record = encode(some_facts(), true);
  auto const header = decode_record_header(record.head.span());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->file, record.header.file);
  EXPECT_EQ(header->offset, 8192u);
  EXPECT_EQ(header->sequence, 7u);
  EXPECT_EQ(header->durable_sequence, 6u);
  EXPECT_EQ(header->size, 4096u + 8192u);
  auto const entries = decode_entries(
      *header, record.head.span().subspan(record_header_size, header->metadata_size));
  ASSERT_EQ(entries.error(), status::ok);
  auto const wanted = some_facts();
  auto decoded = entries;
  for (size_t i = 0; i < wanted.size(); i++) {
    const auto &entry = decoded.value()[i];
    EXPECT_EQ(entry.kind, wanted[i].kind);
    EXPECT_EQ(entry.meta, wanted[i].meta);
    EXPECT_EQ(entry.superseded_version, wanted[i].superseded_version);
    EXPECT_EQ(entry.has_name, wanted[i].has_name);
    EXPECT_EQ(entry.order, wanted[i].order != 0 ? wanted[i].order : make_order(7, i));
  }
  EXPECT_EQ(decoded.value()[0].data_offset, 4096u);
}

TEST(pool_log_format, extents_come_back) {
  std::vector<log_entry> entries(1);
  entries[0].meta = {.namespace_name = "",
                     .name = "n",
                     .version = 1,
                     .size = 30,
                     .created_ns = 0,
                     .flags = 0,
                     .kind = checksum_kind::none,
                     .checksum = 0};
  entries[0].extents = {{4096, 10}, {1u << 30, 20}};
  auto const record = encode(entries, false);
  auto decoded = decode_entries(
      record.header, record.head.span().subspan(record_header_size, record.header.metadata_size));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value()[0].extents, entries[0].extents);
}

TEST(pool_log_format, no_flipped_bit_is_taken) {
  auto const record = encode(some_facts(), true);
  size_t const used = record_header_size + record.header.metadata_size;
  for (size_t bit = 0; bit < used * 8; bit++) {
    record.head.data()[bit / 8] ^= std::byte(1 << bit % 8);
    auto const header = decode_record_header(record.head.span());
    EXPECT_EQ(header.has_value(), bit / 8 >= record_header_size) << bit;
    if (header) {
      EXPECT_FALSE(
          decode_entries(*header,
                         record.head.span().subspan(record_header_size, header->metadata_size))
              .ok())
          << bit;
    }
    record.head.data()[bit / 8] ^= std::byte(1 << bit % 8);
  }
  EXPECT_TRUE(decode_record_header(record.head.span()));
}

TEST(pool_log_format, a_file_header_comes_back_or_not_at_all) {
  block_buffer block{block_size};
  file_header const header{{.pool = {1}, .file_sequence = 2, .file_id = 3}, 4, true};
  encode_file_header(header, block.span());
  auto const decoded = decode_file_header(block.span());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->file, header.file);
  EXPECT_EQ(decoded->first_sequence, 4u);
  EXPECT_TRUE(decoded->with_data);
  for (size_t bit = 0; bit < 72 * 8; bit++) {
    block.data()[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(decode_file_header(block.span())) << bit;
    block.data()[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST(pool_log_format, too_much_is_refused) {
  std::vector<log_entry> entries(change_count_max + 1);
  EXPECT_EQ(lay_out_record(true, entries).error(), status::too_big);
  entries.resize(1);
  entries[0].extents.resize(metadata_size_max / sizeof(extent));
  EXPECT_EQ(lay_out_record(true, entries).error(), status::too_big);
}

TEST(pool_log_format, small_data_follow_the_metadata_and_large_data_the_head) {
  std::vector<log_entry> entries(4);
  uint64_t const sizes[] = {10, 5'000, 0, 20};
  for (size_t i = 0; i < entries.size(); i++) {
    entries[i].meta.name = "n";
    entries[i].meta.size = sizes[i];
  }
  auto const layout = lay_out_record(true, entries).value();
  uint64_t const begin = record_header_size + 4 * stored_size(entries[0]);
  EXPECT_EQ(layout.head, block_size);
  EXPECT_EQ(layout.record, 3 * block_size);
  EXPECT_EQ(entries[0].data_offset, begin);
  EXPECT_EQ(entries[1].data_offset, block_size);
  EXPECT_EQ(entries[2].data_offset, 3 * block_size);
  EXPECT_EQ(entries[3].data_offset, begin + 16);
}

TEST(pool_log_format, data_that_overlap_the_metadata_are_refused) {
  auto record = encode(some_facts(), true);
  auto entries = some_facts();
  for (uint64_t const offset : {record_header_size, record_header_size + 8, size_t{4'100}}) {
    entries[0].data_offset = offset;
    entries[0].meta.size = 8;
    record.head = block_buffer{record.head.size()};
    encode_record(record.header, record.header.size, entries, record.head.span());
    auto const metadata =
        record.head.span().subspan(record_header_size, record.header.metadata_size);
    EXPECT_EQ(decode_entries(record.header, metadata).error(), status::corrupt) << offset;
  }
}

// How many parts of this size a packer puts into a record.
size_t packed_count(uint64_t metadata_size, uint64_t data_size) {
  record_packer packer;
  for (int i = 0; i < 1'000 && packer.add(metadata_size, data_size); i++) {}
  return packer.count();
}

TEST(pool_log_format, a_record_has_little_padding) {
  for (uint64_t const data_size : {0, 8, 64, 200, 1'000, 1'300, 2'200, 3'000, 4'088}) {
    uint64_t const count = packed_count(104, data_size);
    uint64_t const size = record_header_size + count * (104 + data_size);
    EXPECT_LE(record_header_size + count * 104, block_size);
    EXPECT_LE(whole_blocks(size), record_packer::size_max);
    EXPECT_GE(double(size) / double(whole_blocks(size)), 0.88) << data_size;
  }
}

TEST(pool_log_format, a_part_that_does_not_fit_has_a_record_of_its_own) {
  EXPECT_EQ(packed_count(2 * block_size, 0), 1u);
  EXPECT_EQ(packed_count(100, 2 * record_packer::size_max), 1u);
  record_packer packer{block_size};
  EXPECT_TRUE(packer.add(100, 3'000));
  EXPECT_FALSE(packer.add(100, 3'000));
  EXPECT_EQ(packer.count(), 1u);
}

}  // namespace
}  // namespace tanada::pool
