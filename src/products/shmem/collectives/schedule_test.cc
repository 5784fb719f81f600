// Tests of the steps of collective operations, and of the reduction that follows the tree.
#include "products/shmem/collectives/schedule.hpp"

#include <vector>

#include "products/shmem/collectives/testing.hpp"

namespace tanada::shmem {
namespace {

// Members first to last of a group, whose elements have been combined.
struct range {
  int32_t first, last;
};

// Returns what a member sends up the tree; each range must continue the one before it.
range combined_at(int32_t member, int32_t members) {
  range combined{member, member};
  auto const place = schedule::place_in_tree(member, members);
  for (int32_t round = 0; round < place.child_count; round++) {
    int32_t const child = member + schedule::distance(round);
    EXPECT_EQ(schedule::place_in_tree(child, members).round, round);
    range const next = combined_at(child, members);
    EXPECT_EQ(next.first, combined.last + 1) << "member " << member << " of " << members;
    combined.last = next.last;
  }
  return combined;
}

TEST(schedule, a_tree_combines_all_members_in_their_order) {
  for (int32_t members = 2; members < 140; members++) {
    range const all = combined_at(0, members);
    EXPECT_EQ(all.first, 0);
    EXPECT_EQ(all.last, members - 1) << members;
    EXPECT_EQ(schedule::place_in_tree(0, members).round, -1);
  }
}

TEST(schedule, doubling_combines_all_members_in_their_order) {
  for (int32_t members = 2; members < 140; members++) {
    std::vector<range> held;  // by member
    for (int32_t member = 0; member < members; member++)
      held.push_back({member, member});
    int32_t const rounds = schedule::place_in_doubling(0, members).rounds;
    for (int32_t member = 0; member < members; member++) {
      auto const place = schedule::place_in_doubling(member, members);
      if (place.position < 0)
        held[size_t(place.companion)].last = member;
      if (place.companion >= 0) {
        EXPECT_EQ(schedule::place_in_doubling(place.companion, members).companion, member);
      }
    }
    for (int32_t round = 0; round < rounds; round++) {
      std::vector<range> const before = held;
      for (int32_t member = 0; member < members; member++) {
        auto const place = schedule::place_in_doubling(member, members);
        if (place.position < 0)
          continue;
        int32_t const partner = schedule::doubling_partner(place.position, round, members);
        range const own = before[size_t(member)], theirs = before[size_t(partner)];
        bool const is_lower = (place.position & schedule::distance(round)) == 0;
        range const low = is_lower ? own : theirs, high = is_lower ? theirs : own;
        EXPECT_EQ(high.first, low.last + 1) << member << " of " << members;
        held[size_t(member)] = {low.first, high.last};
      }
    }
    for (int32_t member = 0; member < members; member++) {
      if (schedule::place_in_doubling(member, members).position < 0)
        continue;
      EXPECT_EQ(held[size_t(member)].first, 0);
      EXPECT_EQ(held[size_t(member)].last, members - 1) << member;
    }
  }
}

TEST(schedule, a_gather_gives_each_member_all_blocks) {
  for (int32_t members = 2; members < 140; members++) {
    int32_t blocks = 1;  // of this member and of those after it
    for (int32_t round = 0; round < schedule::round_count(members); round++) {
      auto const step = schedule::gather_round(round, members);
      EXPECT_EQ(step.distance, blocks) << "the blocks that arrive continue those that are there";
      EXPECT_LE(step.block_count, blocks) << "no member sends what it does not have";
      blocks += step.block_count;
    }
    EXPECT_EQ(blocks, members);
  }
}

TEST(schedule, a_reduction_takes_a_path_that_its_group_has_memory_for) {
  using schedule::reduction_path;
  schedule::reduction_memory const memory{control_layout::gather_size, control_layout::slices_size};
  auto const path = [&](size_t size, int32_t members) {
    return schedule::path_of_reduction(size, members, memory);
  };
  EXPECT_EQ(path(8, 16), reduction_path::gathered);
  EXPECT_EQ(path(1024, 15), reduction_path::gathered) << "doubling takes a step more";
  EXPECT_EQ(path(1024, 16), reduction_path::doubling);
  EXPECT_EQ(path(1024, 32), reduction_path::doubling);
  EXPECT_EQ(path(2032, 16), reduction_path::doubling);
  EXPECT_EQ(path(size_t{32} << 10, 16), reduction_path::slices);
  EXPECT_EQ(path(size_t{1} << 20, 16), reduction_path::fetched);
  EXPECT_EQ(path(8, 2048), reduction_path::doubling);
  EXPECT_EQ(path(1024, 100'000), reduction_path::doubling);
  EXPECT_EQ(path(size_t{16} << 20, 100'000), reduction_path::fetched);
  EXPECT_EQ(schedule::path_of_reduction(8, 100'000, {0, 0}), reduction_path::fetched);
}

TEST(schedule, a_reduction_of_crowded_processors_takes_few_messages) {
  using schedule::reduction_path;
  schedule::reduction_memory const memory{control_layout::gather_size, control_layout::slices_size};
  auto const path = [&](size_t size, int32_t members) {
    return schedule::path_of_reduction(size, members, memory, schedule::crowding::oversubscribed);
  };
  EXPECT_EQ(path(8, 4), reduction_path::gathered);
  EXPECT_EQ(path(8, 16), reduction_path::tree);
  EXPECT_EQ(path(1024, 32), reduction_path::tree);
  EXPECT_EQ(path(size_t{32} << 10, 16), reduction_path::slices);
}

TEST(schedule, control_memory_of_a_team_does_not_grow_with_the_job) {
  size_t const slots = team_count_max + 1;
  size_t const small = control_layout{1024, slots}.size();
  size_t const large = control_layout{102'400, slots}.size();
  EXPECT_EQ(large - small, (102'400 - 1024) * sizeof(uint64_t));
  EXPECT_LE(size_t(schedule::round_count(1'000'000)), round_count_max);
}

// x -> factor * x + offset, combined by composition, whose order matters.
struct affine {
  uint64_t factor, offset;
};

void compose(void *target_array, const void *source_array, size_t count) {
  auto *const target = static_cast<affine *>(target_array);
  auto const *const source = static_cast<const affine *>(source_array);
  for (size_t i = 0; i < count; i++) {
    target[i] = {target[i].factor * source[i].factor,
                 target[i].factor * source[i].offset + target[i].offset};
  }
}

affine element(size_t operation, int32_t member, size_t index) {
  uint64_t const mixed = operation * 7919 + uint64_t(member) * 104'729 + index;
  return {2 * mixed + 3, mixed * mixed + 1};
}

void expect_combined(size_t operation, int32_t members, size_t index, const affine &combined) {
  affine expected = element(operation, 0, index);
  for (int32_t member = 1; member < members; member++) {
    affine const next = element(operation, member, index);
    compose(&expected, &next, 1);
  }
  ASSERT_EQ(combined.factor, expected.factor) << "operation " << operation << ", " << index;
  ASSERT_EQ(combined.offset, expected.offset) << "operation " << operation << ", " << index;
}

// Words and areas in the heap, for pieces of one cache line.
fabric_signals signals_in_heap(test_pe &self, std::vector<uint64_t> &consumed, int32_t members) {
  auto *const area = reinterpret_cast<fabric_exchange_area *>(self.heap(0));
  consumed.resize(sizeof *area / sizeof(uint64_t));
  auto const counter_of = [&](uint64_t &word) {
    return counter{&word, &consumed[size_t(&word - &area->sync[0][0])]};
  };
  fabric_signals signals;
  for (size_t round = 0; round < round_count_max; round++) {
    for (size_t parity = 0; parity < 2; parity++)
      signals.gather[parity * round_count_max + round] = counter_of(area->gather[parity][round]);
    signals.tree[round] = counter_of(area->tree[round]);
  }
  signals.area_size = cache_line * size_t(schedule::round_count(members) + 1);
  for (size_t parity = 0; parity < 2; parity++)
    signals.areas[parity] = self.heap(4096 + parity * 4096);
  return signals;
}

using reduce_call = status (fabric_group::*)(const reduction &, void *, const void *, size_t);

void expect_reductions(const test_world &world, reduce_call call) {
  with_teams(world, [call](test_pe &self) {
    group const &members = self.teams.world().members();
    std::vector<uint64_t> consumed;
    fabric_group fabric{
        {&self.job, &self.context}, members, signals_in_heap(self, consumed, members.count())};
    for (size_t operation = 0; operation < 40; operation++) {
      size_t const count = 1 + operation % 11;  // several pieces of four elements
      std::vector<affine> elements(count);
      for (size_t i = 0; i < count; i++)
        elements[i] = element(operation, members.me, i);
      self.dawdle();
      reduction const op{sizeof(affine), &compose};
      ASSERT_EQ((fabric.*call)(op, elements.data(), elements.data(), count), status::ok);
      for (size_t i = 0; i < count; i++)
        expect_combined(operation, members.count(), i, elements[i]);
    }
    ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
  });
}

TEST(reduction_by_tree, keeps_the_order_of_members_that_map_one_another) {
  for (int32_t const count : {2, 3, 4, 7})
    expect_reductions({.count = count}, &fabric_group::reduce_by_tree);
}
TEST(reduction_by_tree, keeps_the_order_of_members_of_several_nodes) {
  for (int32_t const count : {2, 5, 8})
    expect_reductions({.count = count, .node_count = 2}, &fabric_group::reduce_by_tree);
}
TEST(reduction_by_doubling, keeps_the_order_of_members_that_map_one_another) {
  for (int32_t const count : {2, 3, 4, 7})
    expect_reductions({.count = count}, &fabric_group::reduce_by_doubling);
}
TEST(reduction_by_doubling, keeps_the_order_of_members_of_several_nodes) {
  for (int32_t const count : {2, 5, 8})
    expect_reductions({.count = count, .node_count = 2}, &fabric_group::reduce_by_doubling);
}

// Has the exchange areas of its node's members, and the leaders' words, in the heap.
node_group group_in_heap(test_pe &self, const group &members, std::vector<uint64_t> &consumed) {
  node_plan plan{self.job, members};
  auto *const own_area = reinterpret_cast<mapped_exchange_area *>(self.heap(size_t{64} << 10));
  node_group::node_areas shared{{}, 0, true};
  for (int32_t const member : plan.nodes[size_t(plan.node_of[size_t(members.me)])].members) {
    auto const peer = self.job.map().locate(own_area, sizeof *own_area, members.pe(member));
    shared.areas.push_back(reinterpret_cast<mapped_exchange_area *>(peer.mapped));
  }
  fabric_signals words = signals_in_heap(self, consumed, plan.node_count());
  words.slices_area = self.heap(size_t{128} << 10);
  return node_group{{&self.job, &self.context}, members, std::move(plan), std::move(shared), words};
}

TEST(reduction_by_nodes, keeps_the_order_of_members_that_combine_by_nodes_first) {
  for (test_world const world : {test_world{.count = 4, .node_count = 2},
                                 test_world{.count = 7, .node_count = 3},
                                 test_world{.count = 10, .node_count = 5}}) {
    with_teams(world, [](test_pe &self) {
      group const &members = self.teams.world().members();
      std::vector<uint64_t> consumed;
      node_group nodes = group_in_heap(self, members, consumed);
      for (size_t operation = 0; operation < 30; operation++) {
        size_t const count = 1 + operation % 20;
        std::vector<affine> elements(count);
        for (size_t i = 0; i < count; i++)
          elements[i] = element(operation, members.me, i);
        reduction const op{sizeof(affine), &compose};
        self.dawdle();
        auto *const data = elements.data();
        ASSERT_EQ(nodes.reduce_by_leaders(op, data, data, count), status::ok);
        for (size_t i = 0; i < count; i++)
          expect_combined(operation, members.count(), i, elements[i]);
      }
      ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
    });
  }
}

}  // namespace
}  // namespace tanada::shmem
