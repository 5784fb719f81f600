#include "products/pool/client/stripe_placement.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tanada::pool {
namespace {

constexpr uint64_t mib = 1 << 20;

// Partition i has server i % count, and its other copy on one of the others.
wire::pool::stripe_places_reply places_of(std::vector<uint64_t> weights) {
  wire::pool::stripe_places_reply places;
  places.stripe_size = 64 * mib;
  for (size_t i = 0; i < weights.size(); i++)
    places.servers.push_back({"host:" + std::to_string(i), weights[i]});
  size_t const count = weights.size();
  for (size_t i = 0; i < wire::pool::stripe_partition_count; i++) {
    places.primaries.push_back(uint8_t(i % count));
    bool const has_backup = count > 1;
    size_t const step = has_backup ? 1 + (i / count) % (count - 1) : 0;
    places.backups.push_back(has_backup ? uint8_t((i + step) % count)
                                        : wire::pool::no_stripe_server);
  }
  return places;
}

std::map<std::string, int> counts_of(stripe_placement &placement, int stripe_count) {
  std::map<std::string, int> counts;
  for (int i = 0; i < stripe_count; i++)
    counts[placement.address_of(placement.next())]++;
  return counts;
}

TEST(stripe_placement, servers_get_stripes_in_proportion_to_their_weights) {
  stripe_placement equal{places_of({1, 1, 1}), "space", 0};
  for (auto const &[address, count] : counts_of(equal, 30))
    EXPECT_EQ(count, 10) << address;
  stripe_placement unequal{places_of({1, 2, 3}), "space", 0};
  auto const counts = counts_of(unequal, 60);
  EXPECT_EQ(counts.at("host:0"), 10);
  EXPECT_EQ(counts.at("host:1"), 20);
  EXPECT_EQ(counts.at("host:2"), 30);
}

TEST(stripe_placement, an_object_is_cut_so_that_servers_get_equally_many_stripes) {
  for (size_t server_count = 1; server_count <= 5; server_count++) {
    stripe_placement const placement{places_of(std::vector<uint64_t>(server_count, 1)), "space", 0};
    for (uint64_t size : {65 * mib, 200 * mib, 1024 * mib, 5000 * mib}) {
      uint64_t const stripe_size = placement.stripe_size(size);
      EXPECT_LE(stripe_size, 64 * mib);
      uint64_t const stripe_count = (size + stripe_size - 1) / stripe_size;
      EXPECT_EQ(stripe_count % server_count, 0u) << size << " on " << server_count;
    }
  }
}

TEST(stripe_placement, objects_begin_at_different_servers) {
  std::set<std::string> addresses;
  for (uint64_t start = 0; start < 3; start++) {
    stripe_placement placement{places_of({1, 1, 1}), "space", start};
    addresses.insert(placement.address_of(placement.next()));
  }
  EXPECT_EQ(addresses.size(), 3u);
}

TEST(stripe_placement, a_namespace_uses_few_partitions_and_all_servers_for_other_copies) {
  auto const places = places_of({1, 1, 1});
  std::set<uint8_t> partitions, backups;
  for (uint64_t start = 0; start < 3; start++) {
    stripe_placement placement{places, "space", start};
    for (int i = 0; i < 60; i++) {
      uint8_t const partition = placement.next();
      partitions.insert(partition);
      backups.insert(places.backups[partition]);
    }
  }
  EXPECT_EQ(partitions.size(), 6u);  // each server's with each of the other two
  EXPECT_EQ(backups.size(), 3u);
}

TEST(stripe_placement, partitions_without_a_server_are_not_used) {
  auto places = places_of({1, 1});
  for (uint8_t &primary : places.primaries)
    primary = primary == 0 ? wire::pool::no_stripe_server : primary;
  stripe_placement placement{places, "space", 0};
  EXPECT_EQ(counts_of(placement, 8).at("host:1"), 8);
  places.primaries.assign(places.primaries.size(), 7);  // no such server
  EXPECT_TRUE((stripe_placement{places, "space", 0}.is_empty()));
}

}  // namespace
}  // namespace tanada::pool
