// Tests of the places of fragments.
#include "products/poold/cluster/fragment_directory.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

constexpr uint64_t period_ns = 1000;
striped_key const key{"runs", {1, 2}};

server_presence server_of(uint32_t number, uint64_t run = 1) {
  server_presence server;
  server.self = {"s" + std::to_string(number), run};
  server.address = "host:" + std::to_string(number);
  return server;
}

// A group of 2+1 on servers 0 to 2, of four.
class fragment_places : public testing::Test {
 protected:
  fragment_places() {
    for (uint32_t i = 0; i < 4; i++)
      servers_.push_back(server_of(i));
    directory_.set_servers(servers_);
    manifest_.erasure = {2, 1};
    manifest_.stripe_size = 100;
    manifest_.size = 200;
    for (uint32_t i = 0; i < 3; i++)
      manifest_.servers.push_back({servers_[i].address, servers_[i].self.run});
    manifest_.places = {0, 1, 2};
    manifest_.sums = {7, 8, 9};
  }

  bool report(uint32_t server, uint32_t index, uint64_t now_ns) {
    return directory_.add_report({key, index, servers_[server].self}, now_ns);
  }
  size_t gap_count(uint64_t now_ns) const {
    return directory_.find_gaps(key, manifest_.layout(), now_ns).size();
  }

  std::vector<server_presence> servers_;
  wire::pool::stripe_manifest manifest_;
  fragment_directory directory_{period_ns};
};

TEST_F(fragment_places, begin_where_the_client_put_them) {
  EXPECT_EQ(gap_count(0), 3u);
  directory_.add(key, manifest_, 0);
  EXPECT_TRUE(directory_.contains(key));
  EXPECT_EQ(gap_count(0), 0u);
  auto const places = directory_.places_of(key, 0);
  ASSERT_EQ(places.places.size(), 3u);
  EXPECT_EQ(places.servers[places.places[1]].text, "host:1");
}

TEST_F(fragment_places, do_not_count_without_reports) {
  directory_.add(key, manifest_, 0);
  EXPECT_TRUE(report(0, 0, 2 * period_ns));
  auto const gaps = directory_.find_gaps(key, manifest_.layout(), 4 * period_ns);
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].index, 1u);
  EXPECT_TRUE(gaps[0].is_missing);
}

TEST_F(fragment_places, of_another_run_count_only_if_it_is_durable) {
  servers_[0] = server_of(0, 2);
  servers_[1] = server_of(1, 2);
  servers_[1].is_durable = 1;
  directory_.set_servers(servers_);
  directory_.add(key, manifest_, 0);
  auto const gaps = directory_.find_gaps(key, manifest_.layout(), 0);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].index, 0u);
}

TEST_F(fragment_places, of_a_server_that_is_gone_do_not_count) {
  directory_.add(key, manifest_, 0);
  servers_.erase(servers_.begin());
  directory_.set_servers(servers_);
  EXPECT_EQ(gap_count(0), 1u);
  EXPECT_EQ(directory_.holders_of(key, manifest_.layout(), 0, 0).size(), 2u);
}

TEST_F(fragment_places, of_a_draining_server_are_gaps_but_not_missing) {
  directory_.add(key, manifest_, 0);
  servers_[2].is_draining = 1;
  directory_.set_servers(servers_);
  auto const gaps = directory_.find_gaps(key, manifest_.layout(), 0);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_FALSE(gaps[0].is_missing);
}

TEST_F(fragment_places, one_of_two_servers_keeps_a_fragment) {
  bool const is_first_kept = report(0, 0, 0);
  EXPECT_TRUE(is_first_kept);
  bool const is_second_kept = report(3, 0, 1);
  EXPECT_NE(report(0, 0, 2), is_second_kept);
  // A server that is draining never keeps it.
  servers_[0].is_draining = 1;
  directory_.set_servers(servers_);
  EXPECT_TRUE(report(3, 0, 3));
  EXPECT_FALSE(report(0, 0, 4));
}

TEST_F(fragment_places, that_are_only_assumed_remove_no_fragment) {
  directory_.add(key, manifest_, 0);
  EXPECT_TRUE(report(3, 0, 1));
  EXPECT_EQ(directory_.holders_of(key, manifest_.layout(), 0, 1).count(0), 2u);
}

TEST_F(fragment_places, of_other_objects_can_be_forgotten) {
  directory_.add(key, manifest_, 0);
  directory_.retain([](const striped_key &) { return false; });
  EXPECT_FALSE(directory_.contains(key));
  EXPECT_EQ(gap_count(0), 3u);
}

}  // namespace
}  // namespace tanada::poold
