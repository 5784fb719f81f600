#include "core/wire/o2g.hpp"

#include <gtest/gtest.h>

namespace tanada::wire::o2g {
namespace {

envelope of(kind what, uint64_t size) {
  envelope head;
  head.what = uint8_t(what);
  head.size = size;
  return head;
}

TEST(o2g_envelope, takes_every_kind_and_nothing_else) {
  for (int what = 0; what < 256; what++) {
    envelope head;
    head.what = uint8_t(what);
    EXPECT_EQ(envelope_check(head) == status::ok, what >= 1 && what <= kind_last) << what;
  }
}

TEST(o2g_envelope, refuses_a_wrong_mark_flags_and_reserved_bits) {
  envelope head = of(kind::message, 8);
  head.mark++;
  EXPECT_EQ(envelope_check(head), status::protocol);
  head = of(kind::message, 8);
  head.flags = flags_all + 1;
  EXPECT_EQ(envelope_check(head), status::protocol);
  head = of(kind::message, 8);
  head.reserved = 1;
  EXPECT_EQ(envelope_check(head), status::protocol);
}

TEST(o2g_envelope, bounds_sizes_by_kind) {
  EXPECT_EQ(envelope_check(of(kind::message, message_size_max)), status::ok);
  EXPECT_EQ(envelope_check(of(kind::message, uint64_t{1} << 63)), status::protocol);
  EXPECT_EQ(envelope_check(of(kind::hello, hello_size_max + 1)), status::protocol);
  EXPECT_EQ(envelope_check(of(kind::ack, 1)), status::protocol);
  EXPECT_EQ(envelope_check(of(kind::atomic, (1 << 16) + 1)), status::protocol);
}

TEST(o2g_envelope, only_some_kinds_are_followed_by_their_size) {
  EXPECT_EQ(following_size(of(kind::message, 9)), 9u);
  EXPECT_EQ(following_size(of(kind::announce, 9)), 0u);
  EXPECT_EQ(following_size(of(kind::get, 9)), 0u);
  EXPECT_EQ(following_size(of(kind::pull, 9)), 0u);
  EXPECT_EQ(following_size(of(kind::got, 9)), 9u);
}

TEST(o2g_hello, comes_back_as_it_went_and_not_cut_short) {
  hello_message sent;
  sent.port = 4711;
  sent.family = 6;
  sent.bytes[15] = 1;
  sent.endpoint[3] = 7;
  sent.room = 1 << 20;
  sent.cookie = "job-17";
  std::vector<std::byte> bytes;
  encode(sent, bytes);
  hello_message came;
  ASSERT_EQ(decode(bytes, came), status::ok);
  EXPECT_EQ(came.port, 4711);
  EXPECT_EQ(came.cookie, "job-17");
  EXPECT_EQ(came.bytes, sent.bytes);
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_EQ(decode(std::span{bytes}.first(size), came), status::protocol) << size;
}

}  // namespace
}  // namespace tanada::wire::o2g
