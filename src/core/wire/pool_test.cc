#include "core/wire/pool.hpp"
#include "core/wire/pool_fragments.hpp"

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

TEST(wire_pool, hidden_namespaces_belong_to_one) {
  EXPECT_TRUE(is_fragment_space(fragment_space_name("runs")));
  EXPECT_EQ(hidden_space_owner(fragment_space_name("runs")), "runs");
  EXPECT_EQ(hidden_space_owner(stripe_space_name("runs", 3)), "runs");
  for (const char *none : {"runs", "/fragments", "a/b/fragments", "runs/fragment", "runs/256"})
    EXPECT_FALSE(hidden_space_owner(none)) << none;
}

TEST(wire_pool, names_of_fragments_have_their_index) {
  EXPECT_EQ(stripe_index_parse(stripe_name({1, 2}, 0x1234)), 0x1234u);
  EXPECT_FALSE(stripe_index_parse(stripe_name({1, 2}, 1) + "x"));
  EXPECT_FALSE(stripe_index_parse(stripe_prefix({1, 2})));
}

TEST(wire_pool, a_manifest_has_all_fragments) {
  stripe_manifest manifest;
  manifest.stripe_size = 100;
  manifest.size = 450;  // two groups
  manifest.erasure = {4, 2};
  manifest.servers.resize(6);
  manifest.places = {0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0};
  manifest.sums.resize(12);
  EXPECT_TRUE(is_valid(manifest));
  manifest.places[3] = 6;  // no such server
  EXPECT_FALSE(is_valid(manifest));
  manifest.places[3] = 0;
  manifest.sums.pop_back();
  EXPECT_FALSE(is_valid(manifest));
  manifest.sums.resize(12);
  manifest.partitions = {1};
  EXPECT_FALSE(is_valid(manifest));
  manifest.partitions.clear();
  manifest.erasure = {4, 5};
  EXPECT_FALSE(is_valid(manifest));
}

TEST(wire_pool, the_largest_messages_about_fragments_fit_a_frame) {
  fragment_places_reply reply;
  reply.servers.resize(no_stripe_server, {std::string(40, 'a')});
  reply.places.resize(fragment_count_max);
  std::vector<std::byte> bytes;
  encode(reply, bytes);
  EXPECT_LE(bytes.size(), body_size_max);
  stripe_manifest manifest;
  manifest.servers.resize(no_stripe_server, {std::string(40, 'a'), 1});
  manifest.places.resize(fragment_count_max);
  manifest.sums.resize(fragment_count_max);
  bytes.clear();
  encode(manifest, bytes);
  EXPECT_LE(bytes.size(), stripe_manifest_size_max);
  fragment_report_request report;
  report.namespace_name = std::string(name_size_max, 'a');
  report.server = report.namespace_name;
  report.entries.resize(stripe_id_count_max);
  bytes.clear();
  encode(report, bytes);
  EXPECT_LE(bytes.size(), body_size_max);
}

}  // namespace
}  // namespace tanada::wire::pool
