// Tests of the choice of servers for fragments.
#include "products/pool/fragment_placement.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tanada::pool {
namespace {

using wire::pool::stripe_server;

std::vector<stripe_server> servers_of(size_t count) {
  std::vector<stripe_server> servers;
  for (size_t i = 0; i < count; i++)
    servers.push_back({.address = "host:" + std::to_string(i)});
  return servers;
}

TEST(fragment_placement, a_group_has_different_servers) {
  auto const servers = servers_of(7);
  fragment_placement placement{servers, {1, 2}, 3};
  std::set<size_t> chosen;
  for (int i = 0; i < 7; i++)
    chosen.insert(placement.next().value());
  EXPECT_EQ(chosen.size(), 7u);
  EXPECT_FALSE(placement.next());
}

TEST(fragment_placement, servers_get_fragments_in_proportion_to_their_weights) {
  auto servers = servers_of(8);
  servers[7].weight = 3;
  std::map<size_t, int> counts;
  constexpr int group_count = 20'000;
  for (int group = 0; group < group_count; group++)
    counts[fragment_placement{servers, {1, 1}, uint64_t(group)}.next().value()]++;
  for (size_t i = 0; i < 7; i++)
    EXPECT_NEAR(counts[i], group_count / 10, group_count / 100);
  EXPECT_NEAR(counts[7], group_count * 3 / 10, group_count / 50);
}

TEST(fragment_placement, a_server_that_joins_changes_few_places) {
  auto const before = servers_of(9), after = servers_of(10);
  int moved_count = 0;
  for (uint64_t group = 0; group < 1000; group++)
    moved_count += fragment_placement{before, {1, 1}, group}.next() !=
                   fragment_placement{after, {1, 1}, group}.next();
  EXPECT_LT(moved_count, 150);
}

TEST(fragment_placement, failure_domains_get_equally_many) {
  auto servers = servers_of(9);
  for (size_t i = 0; i < servers.size(); i++)
    servers[i].domain = "rack" + std::to_string(i / 3);
  for (uint64_t group = 0; group < 100; group++) {
    fragment_placement placement{servers, {9, 9}, group};
    std::map<std::string, int> counts;
    for (int i = 0; i < 6; i++)
      counts[servers[placement.next().value()].domain]++;
    for (auto const &[domain, count] : counts)
      EXPECT_EQ(count, 2) << domain;
  }
}

TEST(fragment_placement, draining_and_excluded_servers_get_none) {
  auto servers = servers_of(4);
  servers[1].is_draining = 1;
  fragment_placement placement{servers, {5, 5}, 0};
  placement.take(0);
  placement.exclude(3);
  EXPECT_EQ(placement.next(), 2u);
  EXPECT_FALSE(placement.next());
}

}  // namespace
}  // namespace tanada::pool
