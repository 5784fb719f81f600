#include "products/poold/cluster/map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace tanada::poold {
namespace {

server_presence server(const std::string &name,
                       const std::string &domain = {},
                       bool is_durable = false) {
  server_presence presence;
  presence.self = {name, 1};
  presence.address = name + ":7411";
  presence.domain = domain;
  presence.is_durable = is_durable ? 1 : 0;
  presence.origin = uint8_t(is_durable ? log_origin::whole : log_origin::new_log);
  return presence;
}

std::vector<server_presence> servers(size_t count) {
  std::vector<server_presence> present;
  for (size_t i = 0; i < count; i++)
    present.push_back(server("s" + std::to_string(i)));
  return present;
}

// The next map; nothing if it stays.
std::optional<cluster_map> next_map(cluster_map map, const std::vector<server_presence> &present) {
  map.epoch++;
  if (advance_map(map, present))
    return map;
  return std::nullopt;
}

// Applies next_map() and completes every join, until nothing changes. Primaries hand over to the
// desired server.
cluster_map settle(cluster_map map, const std::vector<server_presence> &present) {
  for (int round = 0; round < 100; round++) {
    cluster_map const before = map;
    if (auto next = next_map(map, present))
      map = *next;
    map.epoch++;
    for (uint32_t i = 0; i < partition_count; i++) {
      auto const joining = map.partitions[i].joining;
      for (const replica &run : joining)
        EXPECT_TRUE(complete_join(map, i, run, false));
      auto const desired = desired_servers(i, map.copies, present);
      if (!desired.empty())
        (void)hand_over(map, i, map.partitions[i].replicas[0], desired[0]->self);
      for (const replica &run : surplus_replicas(map.partitions[i], desired, map.copies))
        EXPECT_TRUE(remove_replica(map, i, run));
    }
    if (map.partitions == before.partitions)
      return map;
  }
  ADD_FAILURE() << "the map does not settle";
  return map;
}

TEST(cluster_partitions, fragments_lie_in_none) {
  EXPECT_EQ(partition_of(wire::pool::fragment_space_name("runs")), local_partition);
}

TEST(cluster_partitions, a_hidden_namespace_lies_in_the_partition_of_its_number) {
  for (uint32_t i = 0; i < partition_count; i++)
    EXPECT_EQ(partition_of("runs/" + std::to_string(i)), i);
}

TEST(cluster_map, survives_its_encoding) {
  cluster_map const map = settle(first_map(server("s0"), 2), servers(3));
  auto const decoded = decode_map(encode_map(map));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), map);
  server_presence const presence = server("a", "rack", true);
  EXPECT_EQ(decode_presence(encode_presence(presence)).value(), presence);
}

TEST(cluster_map, refuses_bytes_that_are_no_map) {
  std::string const bytes = encode_map(first_map(server("s0"), 2));
  for (size_t size = 0; size < bytes.size(); size += 97)
    EXPECT_FALSE(decode_map(bytes.substr(0, size)).ok());
  cluster_map map = first_map(server("s0"), 2);
  map.partitions[7].replicas.clear();
  EXPECT_FALSE(decode_map(encode_map(map)).ok());
}

TEST(cluster_map, names_spread_over_all_partitions) {
  std::map<uint32_t, int> counts;
  for (int i = 0; i < 256 * 100; i++)
    counts[partition_of("run" + std::to_string(i))]++;
  EXPECT_EQ(counts.size(), partition_count);
  for (auto const &[partition, count] : counts)
    EXPECT_TRUE(count > 50 && count < 160) << count;
}

TEST(placement, is_balanced_and_moves_only_what_it_must) {
  auto const five = servers(5), six = servers(6);
  std::map<std::string, int> primaries;
  int moved = 0;
  for (uint32_t i = 0; i < partition_count; i++) {
    auto const before = desired_servers(i, 3, five), after = desired_servers(i, 3, six);
    ASSERT_EQ(before.size(), 3u);
    primaries[before[0]->self.server]++;
    for (auto const *chosen : after) {
      bool const was_chosen = std::any_of(before.begin(), before.end(), [&](auto const *other) {
        return other->self == chosen->self;
      });
      if (was_chosen)
        continue;
      EXPECT_EQ(chosen->self.server, "s5") << "only the new server gets partitions";
      moved++;
    }
  }
  for (auto const &[name, count] : primaries)
    EXPECT_TRUE(count > 30 && count < 75) << name << ": " << count;
  EXPECT_TRUE(moved > 90 && moved < 170) << "half of 256 expected: " << moved;
}

TEST(placement, follows_weights) {
  auto present = servers(3);
  present[0].weight = 4;
  int count = 0;
  for (uint32_t i = 0; i < partition_count; i++)
    count += desired_servers(i, 1, present)[0] == &present[0];
  EXPECT_TRUE(count > 140 && count < 200) << "two thirds of 256 expected: " << count;
}

TEST(placement, uses_different_domains_as_long_as_there_are_enough) {
  std::vector<server_presence> const present = {
      server("a", "x"), server("b", "x"), server("c", "y"), server("d", "y")};
  for (uint32_t i = 0; i < partition_count; i++) {
    auto const two = desired_servers(i, 2, present);
    EXPECT_NE(two[0]->domain, two[1]->domain);
    auto const three = desired_servers(i, 3, present);
    std::set<std::string> names;
    for (auto const *chosen : three)
      names.insert(chosen->self.server);
    EXPECT_EQ(names.size(), 3u);
  }
}

TEST(advance_map, spreads_a_new_cluster_and_then_stays) {
  auto const present = servers(3);
  cluster_map const map = settle(first_map(present[0], 2), present);
  std::map<std::string, int> primaries;
  for (const partition_record &partition : map.partitions) {
    EXPECT_EQ(partition.replicas.size(), 2u);
    EXPECT_TRUE(partition.joining.empty());
    primaries[partition.replicas[0].server]++;
  }
  EXPECT_EQ(primaries.size(), 3u);
  EXPECT_FALSE(next_map(map, present).has_value());
}

TEST(advance_map, makes_the_next_replica_primary_and_lets_another_join) {
  auto present = servers(3);
  cluster_map const before = settle(first_map(present[0], 2), present);
  present.erase(present.begin());
  auto const after = next_map(before, present);
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->epoch, before.epoch + 1);
  for (uint32_t i = 0; i < partition_count; i++) {
    const partition_record &old = before.partitions[i], &now = after->partitions[i];
    bool const was_primary = old.replicas[0].server == "s0";
    bool const was_backup = old.replicas[1].server == "s0";
    EXPECT_EQ(now.term, was_primary ? after->epoch : old.term);
    EXPECT_EQ(now.replicas[0], old.replicas[was_primary ? 1 : 0]);
    EXPECT_EQ(now.replicas.size(), was_primary || was_backup ? 1u : 2u);
    EXPECT_EQ(now.joining.size(), was_primary || was_backup ? 1u : 0u);
  }
}

TEST(advance_map, takes_a_restarted_server_as_another_replica) {
  auto present = servers(2);
  cluster_map const before = settle(first_map(present[0], 2), present);
  present[0].self.run = 2;
  auto const after = next_map(before, present);
  ASSERT_TRUE(after.has_value());
  for (const partition_record &partition : after->partitions) {
    EXPECT_EQ(partition.replicas, std::vector<replica>{present[1].self});
    EXPECT_EQ(partition.joining, std::vector<replica>{present[0].self});
  }
}

TEST(advance_map, keeps_a_partition_whose_replicas_are_all_away) {
  auto present = servers(2);
  cluster_map const before = settle(first_map(present[0], 1), present);
  auto const only_second = std::vector<server_presence>{present[1]};
  auto const after = next_map(before, only_second);
  for (uint32_t i = 0; i < partition_count; i++)
    if (before.partitions[i].replicas[0].server == "s0") {
      EXPECT_EQ((after ? *after : before).partitions[i].replicas, before.partitions[i].replicas);
    }
}

TEST(advance_map, returns_a_partition_to_a_durable_server_that_restarted) {
  std::vector<server_presence> present = {server("a", {}, true)};
  cluster_map const before = first_map(present[0], 2);
  EXPECT_FALSE(next_map(before, {server("b", {}, true)}).has_value());
  present[0].self.run = 2;
  auto const after = next_map(before, present);
  ASSERT_TRUE(after.has_value());
  for (const partition_record &partition : after->partitions) {
    EXPECT_EQ(partition.replicas, std::vector<replica>{present[0].self});
    EXPECT_EQ(partition.term, after->epoch);
    EXPECT_EQ(partition.was_lost, 0);
  }
}

// The map of two durable servers that both have all partitions, and what runs after a restart.
struct restarted_pair {
  std::vector<server_presence> present = {server("a", {}, true), server("b", {}, true)};
  cluster_map before = first_map(present[0], 2);

  restarted_pair() {
    for (uint32_t i = 0; i < partition_count; i++) {
      before.partitions[i].joining = {present[1].self};
      EXPECT_TRUE(complete_join(before, i, present[1].self, true));
    }
    for (server_presence &run : present)
      run.self.run = 2;
  }
  void expect_primary(const std::vector<server_presence> &running, const std::string &name) {
    auto const after = next_map(before, running);
    ASSERT_TRUE(after.has_value());
    for (const partition_record &partition : after->partitions) {
      EXPECT_EQ(partition.replicas.front().server, name);
      EXPECT_EQ(partition.replicas.size(), 1u);
      EXPECT_EQ(partition.was_lost, 0);
    }
  }
};

TEST(advance_map, does_not_begin_with_an_empty_disk_while_another_server_may_have_the_data) {
  restarted_pair servers;
  servers.present[0].origin = uint8_t(log_origin::new_log);
  EXPECT_FALSE(next_map(servers.before, {servers.present[0]}).has_value());
  servers.expect_primary(servers.present, "b");
}

TEST(advance_map, begins_with_a_damaged_log_only_if_no_other_is_left) {
  restarted_pair servers;
  servers.present[0].origin = uint8_t(log_origin::damaged);
  EXPECT_FALSE(next_map(servers.before, {servers.present[0]}).has_value());
  servers.expect_primary(servers.present, "b");
  servers.present[1].origin = uint8_t(log_origin::new_log);
  servers.expect_primary(servers.present, "a");
}

TEST(advance_map, marks_partitions_whose_disks_were_all_replaced) {
  restarted_pair servers;
  for (server_presence &run : servers.present)
    run.origin = uint8_t(log_origin::new_log);
  auto const after = next_map(servers.before, servers.present);
  ASSERT_TRUE(after.has_value());
  for (const partition_record &partition : after->partitions)
    EXPECT_EQ(partition.was_lost, 1);
}

TEST(advance_map, marks_partitions_whose_copies_in_memory_were_all_lost) {
  std::vector<server_presence> present = {server("a"), server("b")};
  cluster_map const before = settle(first_map(present[0], 2), present);
  present[0].self.run = 2;
  EXPECT_FALSE(next_map(before, {present[0]}).has_value()) << "the other may still have it";
  present[1].self.run = 2;
  auto const after = next_map(before, present);
  ASSERT_TRUE(after.has_value());
  for (const partition_record &partition : after->partitions)
    EXPECT_EQ(partition.was_lost, 1);
}

TEST(advance_map, empties_a_draining_server) {
  auto present = servers(4);
  cluster_map map = settle(first_map(present[0], 2), present);
  present[1].is_draining = 1;
  map = settle(map, present);
  for (const partition_record &partition : map.partitions) {
    EXPECT_EQ(partition.replicas.size(), 2u);
    for (const replica &run : partition.replicas)
      EXPECT_NE(run.server, "s1");
  }
}

TEST(advance_map, leaves_the_removal_of_a_backup_that_runs_to_the_primary) {
  auto present = servers(3);
  cluster_map map = settle(first_map(present[0], 2), present);
  replica const backup = map.partitions[0].replicas[1];
  for (auto &presence : present)
    presence.is_draining = presence.self == backup ? 1 : 0;
  map = *next_map(map, present);
  ASSERT_EQ(map.partitions[0].joining.size(), 1u);
  auto const desired = desired_servers(0, map.copies, present);
  EXPECT_TRUE(surplus_replicas(map.partitions[0], desired, map.copies).empty());
  EXPECT_TRUE(complete_join(map, 0, replica{map.partitions[0].joining[0]}, false));
  map = next_map(map, present).value_or(map);
  EXPECT_EQ(map.partitions[0].replicas.size(), 3u);
  EXPECT_EQ(surplus_replicas(map.partitions[0], desired, map.copies), std::vector{backup});
}

TEST(advance_map, never_removes_the_last_replica_that_runs) {
  auto present = servers(3);
  cluster_map const map = settle(first_map(present[0], 3), present);
  for (auto &presence : present)
    presence.is_draining = 1;
  auto const after = next_map(map, present);
  for (const partition_record &partition : (after ? *after : map).partitions)
    EXPECT_FALSE(partition.replicas.empty());
}

TEST(forget_server, begins_only_what_has_no_other_copy_again) {
  std::vector<server_presence> present = {server("a", {}, true), server("b"), server("c")};
  cluster_map map = settle(first_map(present[0], 1), present);
  auto const lost = present[1];
  present.erase(present.begin() + 1);
  uint32_t served = 0;
  for (const partition_record &partition : map.partitions)
    served += partition.replicas[0] == lost.self;
  ASSERT_GT(served, 0u);
  EXPECT_EQ(count_sole_copies(map, "b", present), served);
  EXPECT_EQ(count_sole_copies(map, "none", present), 0u);
  cluster_map const before = map;
  map.epoch++;
  forget_server(map, "b", present);
  EXPECT_EQ(count_sole_copies(map, "b", present), 0u);
  for (uint32_t i = 0; i < partition_count; i++) {
    bool const was_there = before.partitions[i].replicas[0] == lost.self;
    EXPECT_EQ(map.partitions[i].was_lost, was_there ? 1 : 0);
    EXPECT_EQ(map.partitions[i].term, was_there ? map.epoch : before.partitions[i].term);
    EXPECT_EQ(map.partitions[i].replicas.size(), 1u);
    EXPECT_NE(map.partitions[i].replicas[0], lost.self);
  }
}

TEST(forget_server, relies_on_other_copies_that_run_or_are_durable) {
  std::vector<server_presence> present = {server("a"), server("b")};
  cluster_map const map = settle(first_map(present[0], 2), present);
  EXPECT_EQ(count_sole_copies(map, "a", {present[1]}), 0u);
  EXPECT_EQ(count_sole_copies(map, "a", {}), partition_count) << "b has only its memory";
  cluster_map durable = map;
  for (partition_record &partition : durable.partitions)
    partition.is_durable = {1, 1};
  EXPECT_EQ(count_sole_copies(durable, "a", {}), 0u);
}

TEST(hand_over, is_refused_to_a_server_that_is_no_replica) {
  auto present = servers(3);
  cluster_map map = settle(first_map(present[0], 2), present);
  partition_record const before = map.partitions[0];
  EXPECT_FALSE(hand_over(map, 0, before.replicas[0], {"stranger", 1}));
  EXPECT_FALSE(hand_over(map, 0, before.replicas[1], before.replicas[0]));
  EXPECT_FALSE(hand_over(map, 0, before.replicas[0], before.replicas[0]));
  map.epoch++;
  EXPECT_TRUE(hand_over(map, 0, before.replicas[0], before.replicas[1]));
  EXPECT_EQ(map.partitions[0].replicas[0], before.replicas[1]);
  EXPECT_EQ(map.partitions[0].term, map.epoch);
}

TEST(remove_replica, spares_the_primary) {
  auto present = servers(2);
  cluster_map map = settle(first_map(present[0], 2), present);
  replica const primary = map.partitions[0].replicas[0], backup = map.partitions[0].replicas[1];
  EXPECT_FALSE(remove_replica(map, 0, primary));
  EXPECT_TRUE(remove_replica(map, 0, backup));
  EXPECT_EQ(map.partitions[0].replicas, std::vector<replica>{primary});
}

}  // namespace
}  // namespace tanada::poold
