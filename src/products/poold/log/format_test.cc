#include "products/poold/log/format.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tanada::pool {
namespace {

struct encoded {
  record_header header;
  block_buffer head;
};

encoded encode(std::vector<fact> facts, bool with_data) {
  encoded made;
  made.header.file = {.pool = {1, 2, 3}, .file_sequence = 4, .file_id = 5};
  made.header.offset = 8192;
  made.header.sequence = 7;
  made.header.durable_sequence = 6;
  uint64_t const head_size = record_head_size(facts).value();
  uint64_t const size = record_layout(head_size, with_data, facts);
  made.head = block_buffer{head_size};
  encode_record(made.header, size, facts, made.head.span());
  return made;
}

std::vector<fact> some_facts() {
  std::vector<fact> facts(3);
  facts[0].meta = {.space = "space",
                   .name = "name",
                   .version = 9,
                   .size = 5'000,
                   .created_ns = 3,
                   .flags = 4,
                   .kind = checksum_kind::crc32c,
                   .checksum = 77};
  facts[0].superseded = 8;
  facts[1].kind = fact_kind::remove;
  facts[1].meta.version = 5;
  facts[2].kind = fact_kind::amend;
  facts[2].has_name = true;
  facts[2].has_flags = true;
  facts[2].order = 3;
  facts[2].meta.version = 6;
  facts[2].meta.name = "other";
  facts[2].meta.flags = 8;
  return facts;
}

TEST(pool_log_format, a_record_comes_back) {
  auto const made = encode(some_facts(), true);
  auto const header = decode_record_header(made.head.span());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->file, made.header.file);
  EXPECT_EQ(header->offset, 8192u);
  EXPECT_EQ(header->sequence, 7u);
  EXPECT_EQ(header->durable_sequence, 6u);
  EXPECT_EQ(header->size, 4096u + 8192u);
  auto const facts =
      decode_facts(*header, made.head.span().subspan(record_header_size, header->metadata_size));
  ASSERT_EQ(facts.error(), status::ok);
  auto const wanted = some_facts();
  auto decoded = facts;
  for (size_t i = 0; i < wanted.size(); i++) {
    const auto &each = decoded.value()[i];
    EXPECT_EQ(each.kind, wanted[i].kind);
    EXPECT_EQ(each.meta, wanted[i].meta);
    EXPECT_EQ(each.superseded, wanted[i].superseded);
    EXPECT_EQ(each.has_name, wanted[i].has_name);
    EXPECT_EQ(each.order, wanted[i].order != 0 ? wanted[i].order : order_of(7, i));
  }
  EXPECT_EQ(decoded.value()[0].data_offset, 4096u);
}

TEST(pool_log_format, extents_come_back) {
  std::vector<fact> facts(1);
  facts[0].meta = {.space = "",
                   .name = "n",
                   .version = 1,
                   .size = 30,
                   .created_ns = 0,
                   .flags = 0,
                   .kind = checksum_kind::none,
                   .checksum = 0};
  facts[0].extents = {{4096, 10}, {1u << 30, 20}};
  auto const made = encode(facts, false);
  auto decoded = decode_facts(
      made.header, made.head.span().subspan(record_header_size, made.header.metadata_size));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value()[0].extents, facts[0].extents);
}

TEST(pool_log_format, no_flipped_bit_is_taken) {
  auto const made = encode(some_facts(), true);
  size_t const used = record_header_size + made.header.metadata_size;
  for (size_t bit = 0; bit < used * 8; bit++) {
    made.head.data()[bit / 8] ^= std::byte(1 << bit % 8);
    auto const header = decode_record_header(made.head.span());
    EXPECT_EQ(header.has_value(), bit / 8 >= record_header_size) << bit;
    if (header) {
      EXPECT_FALSE(
          decode_facts(*header, made.head.span().subspan(record_header_size, header->metadata_size))
              .ok())
          << bit;
    }
    made.head.data()[bit / 8] ^= std::byte(1 << bit % 8);
  }
  EXPECT_TRUE(decode_record_header(made.head.span()));
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
  std::vector<fact> facts(change_count_max + 1);
  EXPECT_EQ(record_head_size(facts).error(), status::too_big);
  facts.resize(1);
  facts[0].extents.resize(metadata_size_max / sizeof(extent));
  EXPECT_EQ(record_head_size(facts).error(), status::too_big);
}

}  // namespace
}  // namespace tanada::pool
