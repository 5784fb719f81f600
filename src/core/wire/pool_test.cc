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

}  // namespace
}  // namespace tanada::wire::pool
