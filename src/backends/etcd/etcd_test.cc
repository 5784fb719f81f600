#include <gtest/gtest.h>

#include "backends/etcd/etcd_base64.hpp"
#include "backends/etcd/etcd_coordinator.hpp"
#include "backends/etcd/etcd_messages.hpp"

namespace tanada::backends {
namespace {

TEST(etcd_url_test, a_url_has_endpoints_and_a_name) {
  auto const url = etcd_url_parse("etcd://h1:2379,10.0.0.2:2380,[::1]:1/pool-a_1");
  ASSERT_TRUE(url.ok());
  ASSERT_EQ(url.value().endpoints.size(), 3u);
  EXPECT_EQ(url.value().endpoints[0].host, "h1");
  EXPECT_EQ(url.value().endpoints[1].port, 2380);
  EXPECT_EQ(url.value().endpoints[2].host, "::1");
  EXPECT_EQ(url.value().cluster_name, "pool-a_1");
  EXPECT_FALSE(url.value().uses_tls);
  auto const tls_url = etcd_url_parse("etcds://h:1/n");
  ASSERT_TRUE(tls_url.ok());
  EXPECT_TRUE(tls_url.value().uses_tls);
}

TEST(etcd_url_test, other_texts_are_refused) {
  std::string const name(64, 'n');
  EXPECT_TRUE(etcd_url_parse("etcd://h:1/" + name).ok());
  for (std::string const &text : {std::string{""},
                                  std::string{"etcd:"},
                                  std::string{"etcd://"},
                                  std::string{"http://h:1/n"},
                                  std::string{"etcd://h:1"},
                                  std::string{"etcd://h:1/"},
                                  std::string{"etcd://h:1/n/"},
                                  std::string{"etcd://h:1/n n"},
                                  std::string{"etcd:///n"},
                                  std::string{"etcd://h/n"},
                                  std::string{"etcd://h:/n"},
                                  std::string{"etcd://h:0/n"},
                                  std::string{"etcd://h:65536/n"},
                                  std::string{"etcd://h:1x/n"},
                                  std::string{"etcd://:1/n"},
                                  std::string{"etcd://::1:1/n"},
                                  std::string{"etcd://h:1,/n"},
                                  std::string{"etcd://,h:1/n"},
                                  std::string{"etcd://u@h:1/n"},
                                  "etcd://h:1/" + name + "n"})
    EXPECT_EQ(etcd_url_parse(text).error(), status::invalid) << text;
}

TEST(etcd_base64_test, every_length_returns_as_it_was) {
  std::string bytes;
  for (int i = 0; i < 300; i++) {
    auto const decoded = base64_decode(base64_encode(bytes));
    ASSERT_TRUE(decoded.ok()) << i;
    EXPECT_EQ(decoded.value(), bytes);
    bytes.push_back(char(i * 37));
  }
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
}

TEST(etcd_base64_test, texts_that_are_not_canonical_are_refused) {
  for (auto const *text :
       {"A", "AA", "AAA", "AA=A", "A===", "====", "AB==", "AAB=", "AA==AAAA", "AA-_", "AA= "})
    EXPECT_EQ(base64_decode(text).error(), status::protocol) << text;
}

TEST(etcd_messages_test, a_range_is_decoded) {
  auto const range =
      decode_range(R"({"header":{"revision":"9"},"kvs":[{"key":"YQ==","mod_revision":"7",)"
                   R"("value":"dg==","lease":"3"}]})");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range.value().store_revision, 9u);
  ASSERT_EQ(range.value().entries.size(), 1u);
  EXPECT_EQ(range.value().entries[0].key, "a");
  EXPECT_EQ(range.value().entries[0].value, "v");
  EXPECT_EQ(range.value().entries[0].revision, 7u);
  EXPECT_EQ(range.value().entries[0].lease, 3);
}

TEST(etcd_messages_test, ranges_of_another_form_are_refused) {
  for (auto const *text :
       {"",
        "[]",
        "7",
        "{",
        "{}",
        R"({"header":7})",
        R"({"header":{"revision":"-1"}})",
        R"({"header":{"revision":"0"}})",
        R"({"header":{"revision":"9223372036854775808"}})",
        R"({"header":{"revision":"1x"}})",
        R"({"header":{"revision":1.5}})",
        R"({"header":{"revision":"9"},"kvs":{}})",
        R"({"header":{"revision":"9"},"kvs":[7]})",
        R"({"header":{"revision":"9"},"kvs":[{"key":"YQ=="}]})",
        R"({"header":{"revision":"9"},"kvs":[{"mod_revision":"7"}]})",
        R"({"header":{"revision":"9"},"kvs":[{"key":7,"mod_revision":"7"}]})",
        R"({"header":{"revision":"9"},"kvs":[{"key":"YQ","mod_revision":"7"}]})",
        R"({"header":{"revision":"9"},"kvs":[{"key":"YQ==","mod_revision":"10"}]})"})
    EXPECT_EQ(decode_range(text).error(), status::protocol) << text;
}

TEST(etcd_messages_test, deep_nesting_is_refused) {
  std::string text = R"({"header":)";
  text.append(100'000, '[');
  EXPECT_EQ(decode_range(text).error(), status::protocol);
  text.append(100'000, ']');
  EXPECT_EQ(decode_range(text + "}").error(), status::protocol);
}

TEST(etcd_messages_test, errors_have_a_status) {
  auto const code = [](const char *text) {
    return decode_error(text).code;
  };
  EXPECT_EQ(code(R"({"message":"etcdserver: requested lease not found","code":5})"),
            status::no_entry);
  EXPECT_EQ(code(R"({"message":"etcdserver: request is too large","code":3})"), status::too_big);
  EXPECT_EQ(code(R"({"message":"etcdserver: no leader","code":14})"), status::timed_out);
  EXPECT_EQ(code(R"({"message":"etcdserver: permission denied","code":7})"), status::access);
  EXPECT_EQ(code(R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})"),
            status::timed_out);
  EXPECT_EQ(code("<html>"), status::protocol);
  EXPECT_TRUE(
      decode_error(R"({"message":"etcdserver: invalid auth token","code":16})").is_about_token);
}

TEST(etcd_messages_test, answers_of_a_watch_are_decoded) {
  auto const created = decode_watch(R"({"result":{"header":{"revision":"2"},"created":true}})");
  ASSERT_TRUE(created.ok());
  EXPECT_TRUE(created.value().is_created);
  auto const changed = decode_watch(
      R"({"result":{"header":{"revision":"3"},"events":[{"kv":{"key":"YQ==","mod_revision":"2"}},)"
      R"({"type":"DELETE","kv":{"key":"YQ==","mod_revision":"3"}}]}})");
  ASSERT_TRUE(changed.ok());
  ASSERT_EQ(changed.value().events.size(), 2u);
  EXPECT_FALSE(changed.value().events[0].is_removed);
  EXPECT_TRUE(changed.value().events[1].is_removed);
  EXPECT_EQ(decode_watch(R"({"result":{"canceled":true,"compact_revision":"2"}})").error(),
            status::stale);
  EXPECT_EQ(decode_watch(R"({"result":{"canceled":true}})").error(), status::peer_lost);
  EXPECT_EQ(decode_watch(R"({"result":{"header":{"revision":"3"},"events":[{}]}})").error(),
            status::protocol);
}

TEST(etcd_messages_test, a_renewal_without_a_ttl_is_of_a_lease_that_has_ended) {
  EXPECT_EQ(decode_renewal(R"({"result":{"ID":"7","TTL":"5"}})"), status::ok);
  EXPECT_EQ(decode_renewal(R"({"result":{"ID":"7"}})"), status::no_entry);
  EXPECT_EQ(decode_renewal(R"({"result":7})"), status::protocol);
}

TEST(etcd_coordinator_test, options_without_an_endpoint_or_with_a_missing_file_are_invalid) {
  EXPECT_EQ(etcd_coordinator_create({}).error(), status::invalid);
  etcd_options options;
  options.endpoints = {{"127.0.0.1", 1}};
  options.uses_tls = true;
  options.ca_file = "no/such";
  EXPECT_EQ(etcd_coordinator_create(options).error(), status::invalid);
}

}  // namespace
}  // namespace tanada::backends
