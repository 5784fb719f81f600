#include "core/wire/pool.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tanada::wire::pool {
namespace {

TEST(wire_pool, a_frame_has_its_header_and_its_body) {
  open_request const original{"name", 7};
  auto const bytes = encode_frame(frame{.kind = uint16_t(kind::open), .tag = 3}, original);
  frame head;
  std::memcpy(&head, bytes.data(), sizeof head);
  EXPECT_EQ(frame_check(head), status::ok);
  EXPECT_EQ(head.body_size, bytes.size() - sizeof head);
  open_request decoded;
  ASSERT_EQ(decode(std::span{bytes}.subspan(sizeof head), decoded), status::ok);
  EXPECT_EQ(decoded.name, "name");
  EXPECT_EQ(decoded.version, 7u);
}

TEST(wire_pool, frames_that_are_none_are_refused) {
  EXPECT_EQ(frame_check({.magic = 0}), status::protocol);
  EXPECT_EQ(frame_check({.reserved = 1}), status::protocol);
  EXPECT_EQ(frame_check({.body_size = body_size_max + 1}), status::protocol);
  EXPECT_EQ(frame_check({.data_size = object_size_max + 1}), status::protocol);
}

TEST(wire_pool, an_unknown_status_is_a_protocol_error) {
  EXPECT_EQ(status_of(-28), status::no_space);
  EXPECT_EQ(status_of(0), status::ok);
  EXPECT_EQ(status_of(5), status::protocol);
  EXPECT_EQ(status_of(-9999), status::protocol);
}

TEST(wire_pool, the_longest_lists_fit_a_body) {
  object_reply reply;
  reply.extents.resize(extent_count_max);
  std::vector<std::byte> bytes;
  encode(reply, bytes);
  EXPECT_LE(bytes.size(), body_size_max);
  ranges_request request;
  request.ranges.resize(range_count_max);
  bytes.clear();
  encode(request, bytes);
  EXPECT_LE(bytes.size(), body_size_max);
}

TEST(wire_pool, names_are_bounded) {
  EXPECT_TRUE(is_valid_name("a/b"));
  EXPECT_FALSE(is_valid_name(""));
  EXPECT_FALSE(is_valid_name(std::string(name_size_max + 1, 'a')));
  EXPECT_FALSE(is_valid_name(std::string("a\0b", 3)));
}

TEST(wire_pool, hidden_namespaces_have_a_partition) {
  auto const parsed = stripe_space_parse(stripe_space_name("runs", 17));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->namespace_name, "runs");
  EXPECT_EQ(parsed->partition, 17u);
  for (const char *none : {"runs", "runs/", "/17", "runs/256", "runs/017", "runs/1x", "a/b/1"})
    EXPECT_FALSE(stripe_space_parse(none)) << none;
}

TEST(wire_pool, names_of_stripes_have_the_objects_id) {
  striped_id const id{0x1234, ~uint64_t{0}};
  std::string const name = stripe_name(id, 10);
  EXPECT_TRUE(name.starts_with(stripe_prefix(id)));
  EXPECT_EQ(stripe_prefix(id).size(), stripe_prefix_size);
  EXPECT_EQ(stripe_name_parse(name), id);
  EXPECT_LT(stripe_name(id, 9), stripe_name(id, 10));
  for (const char *none : {"", "name", "000000000000000000000000000000000", "x"})
    EXPECT_FALSE(stripe_name_parse(none)) << none;
}

TEST(wire_pool, a_manifest_covers_its_object_exactly) {
  stripe_manifest manifest;
  manifest.stripe_size = 100;
  manifest.size = 250;
  manifest.partitions = {1, 2, 3};
  EXPECT_TRUE(is_valid(manifest));
  EXPECT_EQ(manifest.size_of(0), 100u);
  EXPECT_EQ(manifest.size_of(2), 50u);
  EXPECT_EQ(manifest.size_of(3), 0u);
  manifest.partitions.pop_back();
  EXPECT_FALSE(is_valid(manifest));
  manifest.size = 200;
  EXPECT_TRUE(is_valid(manifest));
  manifest.stripe_size = 0;
  EXPECT_FALSE(is_valid(manifest));
  manifest = {};
  manifest.stripe_size = 1;
  manifest.size = object_size_max + 1;
  EXPECT_FALSE(is_valid(manifest));
}

}  // namespace
}  // namespace tanada::wire::pool
