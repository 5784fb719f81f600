#include "core/wire/o2g.hpp"

#include <gtest/gtest.h>

namespace tanada::wire::o2g {
namespace {

envelope make_envelope(kind message_kind, uint64_t size) {
  envelope head;
  head.kind = uint8_t(message_kind);
  head.size = size;
  return head;
}

TEST(o2g_envelope, takes_every_kind_and_nothing_else) {
  for (int kind_value = 0; kind_value < 256; kind_value++) {
    envelope head;
    head.kind = uint8_t(kind_value);
    EXPECT_EQ(envelope_check(head) == status::ok, kind_value >= 1 && kind_value <= kind_last)
        << kind_value;
  }
}

TEST(o2g_envelope, refuses_a_wrong_mark_flags_and_reserved_bits) {
  envelope head = make_envelope(kind::message, 8);
  head.mark++;
  EXPECT_EQ(envelope_check(head), status::protocol);
  head = make_envelope(kind::message, 8);
  head.flags = flags_all + 1;
  EXPECT_EQ(envelope_check(head), status::protocol);
  head = make_envelope(kind::message, 8);
  head.reserved = 1;
  EXPECT_EQ(envelope_check(head), status::protocol);
}

TEST(o2g_envelope, bounds_sizes_by_kind) {
  EXPECT_EQ(envelope_check(make_envelope(kind::message, message_size_max)), status::ok);
  EXPECT_EQ(envelope_check(make_envelope(kind::message, uint64_t{1} << 63)), status::protocol);
  EXPECT_EQ(envelope_check(make_envelope(kind::hello, hello_size_max + 1)), status::protocol);
  EXPECT_EQ(envelope_check(make_envelope(kind::ack, 1)), status::protocol);
  EXPECT_EQ(envelope_check(make_envelope(kind::atomic, (1 << 16) + 1)), status::protocol);
}

TEST(o2g_envelope, only_some_kinds_are_followed_by_their_size) {
  EXPECT_EQ(following_size(make_envelope(kind::message, 9)), 9u);
  EXPECT_EQ(following_size(make_envelope(kind::announce, 9)), 0u);
  EXPECT_EQ(following_size(make_envelope(kind::get, 9)), 0u);
  EXPECT_EQ(following_size(make_envelope(kind::pull, 9)), 0u);
  EXPECT_EQ(following_size(make_envelope(kind::get_reply, 9)), 9u);
}

TEST(o2g_hello, comes_back_as_it_went_and_not_cut_short) {
  hello_message original;
  original.port = 4711;
  original.family = 6;
  original.bytes[15] = 1;
  original.endpoint[3] = 7;
  original.credit = 1 << 20;
  original.cookie = "job-17";
  std::vector<std::byte> bytes;
  encode(original, bytes);
  hello_message decoded;
  ASSERT_EQ(decode(bytes, decoded), status::ok);
  EXPECT_EQ(decoded.port, 4711);
  EXPECT_EQ(decoded.cookie, "job-17");
  EXPECT_EQ(decoded.bytes, original.bytes);
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_EQ(decode(std::span{bytes}.first(size), decoded), status::protocol) << size;
}

}  // namespace
}  // namespace tanada::wire::o2g
