// Tests of URLs of pools.
#include "products/pool/address.hpp"

#include <gtest/gtest.h>

namespace tanada::pool {
namespace {

TEST(pool_address, has_its_parts) {
  auto plain = address_parse("pool://node/runs/a/b");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain.value().host, "node");
  EXPECT_EQ(plain.value().port, TND_POOL_DEFAULT_PORT);
  EXPECT_EQ(plain.value().space, "runs");
  EXPECT_EQ(plain.value().object, "a/b");
  auto whole = address_parse("pool://[::1]:81/runs");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole.value().host, "::1");
  EXPECT_EQ(whole.value().port, 81);
  EXPECT_EQ(whole.value().object, "");
}

TEST(pool_address, malformed_ones_are_refused) {
  for (const char *url : {"",
                          "file:///x",
                          "pool://",
                          "pool://node",
                          "pool://node/",
                          "pool:///runs/x",
                          "pool://node:0/runs",
                          "pool://node:65536/runs",
                          "pool://node:x/runs",
                          "pool://[::1/runs",
                          "pool://:1/runs"}) {
    EXPECT_EQ(address_parse(url).error(), status::invalid) << url;
  }
  EXPECT_EQ(address_parse("pool://node/runs/" + std::string(513, 'x')).error(), status::invalid);
}

TEST(address, has_several_servers) {
  auto const parsed = address_parse("pool://a,b:7,[::1]:8,[::2]/space/object");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().host, "a");
  std::vector<server_place> const others = {{"b", 7}, {"::1", 8}, {"::2", TND_POOL_DEFAULT_PORT}};
  EXPECT_EQ(parsed.value().others, others);
  EXPECT_EQ(parsed.value().object, "object");
  EXPECT_EQ(space_url(parsed.value()), "pool://a:7440,b:7,[::1]:8,[::2]:7440/space");
  auto const again = address_parse(space_url(parsed.value()));
  EXPECT_EQ(again.value().others, others);
  for (const char *wrong : {"pool://a,/space", "pool://,a/space", "pool://a,b:0/space"})
    EXPECT_FALSE(address_parse(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace tanada::pool
