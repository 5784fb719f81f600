// Tests of the collectives of teams, with PEs as threads.
#include "products/shmem/collectives/collectives.hpp"

#include <complex>
#include <cstring>

#include "products/shmem/collectives/testing.hpp"

namespace tanada::shmem {
namespace {

// Operations between two syncs have separate buffers, because members may be an operation ahead of
// one another.
constexpr size_t buffer_size = size_t{1} << 20, buffer_count = 4;
constexpr size_t sizes[] = {0, 1, 8, 100, 2032, 2040, 5000, 16384, 70001};

uint8_t pattern(uint64_t operation, int32_t source, int32_t target, size_t index) {
  uint64_t const mixed =
      (operation * 1000003 + uint64_t(source) * 8191 + uint64_t(target) * 131 + index) *
      0x9e3779b97f4a7c15u;
  return uint8_t(mixed >> 56);
}

// Runs all collectives of bytes on one team and compares the results with the expected ones.
class bytes_check {
 public:
  bytes_check(test_pe &self, team &team_ref) : self_{self}, team_{team_ref}, coll_{team_ref} {}

  void run() {
    for (size_t const size : sizes) {
      broadcasts(size);
      blocks(size);
    }
    for (size_t const size : {size_t{300'001}, buffer_size})
      broadcasts(size);
    meet();
  }

 private:
  // Takes fresh buffers for an operation; syncs when all are used.
  void begin() {
    if (++operation_ % buffer_count == 0)
      meet();
    size_t const base = operation_ % buffer_count * 2 * buffer_size;
    source_ = reinterpret_cast<uint8_t *>(self_.heap(base));
    target_ = reinterpret_cast<uint8_t *>(self_.heap(base + buffer_size));
    self_.dawdle();
  }
  void meet() {
    ASSERT_EQ(coll_.sync(), status::ok);
  }
  void fill(size_t size, int32_t target, size_t offset = 0) {
    for (size_t i = 0; i < size; i++)
      source_[offset + i] = pattern(operation_, team_.me(), target, i);
  }
  void expect(
      size_t offset, size_t size, int32_t source, int32_t target, const char *operation_name) {
    for (size_t i = 0; i < size; i++) {
      ASSERT_EQ(target_[offset + i], pattern(operation_, source, target, i))
          << operation_name << " of " << size << " bytes, from " << source << " at " << team_.me()
          << " of " << team_.count() << ", byte " << i;
    }
  }
  // Overwrites the source, which the caller may reuse.
  void spoil(size_t size) {
    std::memset(source_, 0xee, size);
  }

  void broadcasts(size_t size) {
    for (int32_t root = 0; root < team_.count(); root += team_.count() > 8 ? 5 : 1) {
      bool const to_itself = root % 2 == 0;
      begin();
      if (team_.me() == root) {
        fill(size, 0);
        std::memset(target_, 0x11, size);
      }
      ASSERT_EQ(coll_.broadcast(target_, source_, size, root, to_itself), status::ok);
      spoil(size);
      if (team_.me() != root || to_itself) {
        expect(0, size, root, 0, "broadcast");
      } else {
        for (size_t i = 0; i < size; i++)
          ASSERT_EQ(target_[i], 0x11) << "the root's target must not change";
      }
    }
  }

  void blocks(size_t total) {
    size_t const members = size_t(team_.count()), size = members > 4 ? total / 4 : total;
    begin();
    for (size_t i = 0; i < members; i++)
      fill(size, int32_t(i), i * size);
    ASSERT_EQ(coll_.alltoall(target_, source_, size), status::ok);
    spoil(size * members);
    for (size_t i = 0; i < members; i++)
      expect(i * size, size, int32_t(i), team_.me(), "alltoall");

    begin();
    fill(size, 0);
    ASSERT_EQ(coll_.fcollect(target_, source_, size), status::ok);
    spoil(size);
    for (size_t i = 0; i < members; i++)
      expect(i * size, size, int32_t(i), 0, "fcollect");

    begin();
    auto const size_of = [&](size_t member) {
      return size * (member % 3) / 2;
    };
    fill(size_of(size_t(team_.me())), 0);
    ASSERT_EQ(coll_.collect(target_, source_, size_of(size_t(team_.me()))), status::ok);
    spoil(size);
    for (size_t i = 0, offset = 0; i < members; offset += size_of(i++))
      expect(offset, size_of(i), int32_t(i), 0, "collect");

    begin();
    size_t const count =
        std::min<size_t>(size / 64, 500);  // elements of 3 bytes; strides: source 2, target 4
    for (size_t i = 0; i < members * count * 2 * 3; i++)
      source_[i] = pattern(operation_, team_.me(), 9, i);
    std::memset(target_, 0x22, members * count * 4 * 3);
    meet();  // others may write as soon as they have entered
    fabric_group::strides const shape{
        .size = 3, .count = count, .target_stride = 4, .source_stride = 2};
    ASSERT_EQ(coll_.alltoall_strided(target_, source_, shape), status::ok);
    for (size_t i = 0; i < members * count; i++) {
      size_t const source_member = i / count,
                   source_offset = (size_t(team_.me()) * count + i % count) * 2 * 3;
      for (size_t byte = 0; byte < 12; byte++) {
        uint8_t const wanted =
            byte < 3 ? pattern(operation_, int32_t(source_member), 9, source_offset + byte) : 0x22;
        ASSERT_EQ(target_[i * 12 + byte], wanted) << "alltoalls, element " << i << " byte " << byte;
      }
    }
  }

  test_pe &self_;
  team &team_;
  collective coll_;
  uint64_t operation_ = 0;
  uint8_t *source_ = nullptr, *target_ = nullptr;
};

template <class T>
T element(int32_t member, size_t index) {
  if constexpr (std::is_integral_v<T>) {
    return T((member + 2) * 77 + int(index * 13 % 101));
  } else {
    return T(1) + T(int(index * 7 % 13 + size_t(member) * 3)) / T(8);
  }
}

// Rounding depends on which members are combined first.
template <class T>
bool is_near(const T &value, const T &wanted) {
  if constexpr (std::is_integral_v<T>)
    return value == wanted;
  else
    return std::abs(value - wanted) <= std::abs(wanted) * 1e-4f;
}

template <class T, class Operation>
void check_reduce(test_pe &self, team &team_ref, size_t count, bool in_place) {
  collective coll{team_ref};
  auto *const source = reinterpret_cast<T *>(self.heap(0));
  auto *const target = in_place ? source : reinterpret_cast<T *>(self.heap(buffer_size));
  auto const prepare = [&] {
    ASSERT_EQ(coll.sync(), status::ok);
    for (size_t i = 0; i < count; i++)
      source[i] = element<T>(team_ref.me(), i);
    self.dawdle();
  };
  auto const wanted = [&](int32_t members, size_t i) {
    T value = members == 0 ? T{} : element<T>(0, i);
    for (int32_t member = 1; member < members; member++)
      value = Operation::apply(value, element<T>(member, i));
    return value;
  };
  prepare();
  ASSERT_EQ(coll.reduce(reduction_of<T, Operation>, target, source, count), status::ok);
  for (size_t i = 0; i < count; i++)
    ASSERT_TRUE(is_near(target[i], wanted(team_ref.count(), i)))
        << "reduce, element " << i << " of " << count;
  auto *const first = reinterpret_cast<T *>(self.heap(2 * buffer_size));
  ASSERT_EQ(coll.broadcast(first, target, count * sizeof(T), 0, true), status::ok);
  for (size_t i = 0; i < count; i++)
    ASSERT_EQ(target[i], first[i]) << "all members have the same bits";
  prepare();
  ASSERT_EQ(coll.scan(reduction_of<T, Operation>, scan_kind::inclusive, target, source, count),
            status::ok);
  for (size_t i = 0; i < count; i++)
    ASSERT_EQ(target[i], wanted(team_ref.me() + 1, i))
        << "inscan, element " << i << " of " << count;
  prepare();
  ASSERT_EQ(coll.scan(reduction_of<T, Operation>, scan_kind::exclusive, target, source, count),
            status::ok);
  for (size_t i = 0; i < count; i++)
    ASSERT_EQ(target[i], wanted(team_ref.me(), i)) << "exscan, element " << i << " of " << count;
}

void check_reductions(test_pe &self, team &team_ref) {
  for (size_t const count : {1, 3, 60, 253, 254, 255, 700, 3001, 20000}) {
    for (bool const in_place : {false, true}) {
      check_reduce<int64_t, sum>(self, team_ref, count, in_place);
      check_reduce<int8_t, maximum>(self, team_ref, count, in_place);
      check_reduce<double, product>(self, team_ref, count, in_place);
      check_reduce<long double, sum>(self, team_ref, count, in_place);
      check_reduce<std::complex<float>, product>(self, team_ref, count, in_place);
      check_reduce<uint16_t, product>(self, team_ref, count, in_place);
      check_reduce<uint32_t, bit_xor>(self, team_ref, count, in_place);
      check_reduce<float, minimum>(self, team_ref, count, in_place);
    }
  }
}

void check_team(test_pe &self, team &team_ref) {
  bytes_check{self, team_ref}.run();
  check_reductions(self, team_ref);
}

struct shape {
  int32_t count;
  team_set::group_mode mode;
  int32_t node_count = 1;
};

class collectives_on : public testing::TestWithParam<shape> {
 protected:
  test_world world() const {
    return {
        .count = GetParam().count, .mode = GetParam().mode, .node_count = GetParam().node_count};
  }
};

TEST_P(collectives_on, the_world_give_what_they_should) {
  with_teams(world(), [](test_pe &self) { check_team(self, self.teams.world()); });
}

TEST_P(collectives_on, teams_of_teams_give_what_they_should) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    // Every other PE, in reverse order.
    int const half = (world.count() + 1) / 2;
    auto odd = self.teams.split(world, {.start = (half - 1) * 2, .step = -2, .count = half}, 0);
    ASSERT_TRUE(odd.ok());
    ASSERT_EQ(odd.value() != nullptr, self.job.me() % 2 == 0);
    auto grid = self.teams.split_2d(world, 3, 0, 0);
    ASSERT_TRUE(grid.ok());
    auto [row, column] = grid.value();
    ASSERT_EQ(row->me(), self.job.me() % 3);
    ASSERT_EQ(column->me(), self.job.me() / 3);
    bytes_check{self, *row}.run();
    bytes_check{self, *column}.run();
    if (odd.value() != nullptr) {
      ASSERT_EQ(odd.value()->me(), half - 1 - self.job.me() / 2);
      auto pair =
          self.teams.split(*odd.value(), {.start = 0, .step = 1, .count = std::min(half, 2)}, 0);
      ASSERT_TRUE(pair.ok());
      if (pair.value() != nullptr) {
        check_team(self, *pair.value());
        ASSERT_EQ(self.teams.destroy(pair.value()), status::ok);
      }
      bytes_check{self, *odd.value()}.run();
      ASSERT_EQ(self.teams.destroy(odd.value()), status::ok);
    }
    check_reductions(self, *row);
    ASSERT_EQ(self.teams.destroy(row), status::ok);
    ASSERT_EQ(self.teams.destroy(column), status::ok);
  });
}

// Small reductions in two levels combine in the order of the members, whatever their nodes are.
TEST(collectives_on_nodes, reductions_have_the_bits_of_one_level) {
  auto const sums_of = [](team_set::group_mode mode) {
    std::vector<float> sums(64);
    with_teams({.count = 5, .mode = mode, .node_count = 2}, [&](test_pe &self) {
      auto &world = self.teams.world();
      // Members alternate between the nodes.
      auto reversed = self.teams.split(world, {.start = 4, .step = -1, .count = 5}, 0);
      ASSERT_TRUE(reversed.ok());
      auto *const source = reinterpret_cast<float *>(self.heap(0));
      for (size_t i = 0; i < sums.size(); i++)
        source[i] = 1.0f / float(int(i) * 7 + self.job.me() * 3 + 1);
      float *const target = source + sums.size();
      ASSERT_EQ(collective{*reversed.value()}.reduce(
                    reduction_of<float, sum>, target, source, sums.size()),
                status::ok);
      if (self.job.me() == 3)
        std::copy_n(target, sums.size(), sums.begin());
    });
    return sums;
  };
  EXPECT_EQ(sums_of(team_set::group_mode::mapped), sums_of(team_set::group_mode::fabric));
}

TEST(collectives_on_nodes, plans_have_levels_only_where_some_members_share_a_node) {
  with_teams({.count = 4, .node_count = 2}, [](test_pe &self) {
    auto const plan_of = [&](std::vector<onesided::pe_index> pes) {
      group const members{std::move(pes), 0};
      return node_plan{self.job, members};
    };
    auto const &own_node = self.job.node_pes();
    ASSERT_EQ(own_node.size(), 2u);
    auto const is_near = [&](onesided::pe_index pe) {
      return std::ranges::find(own_node, pe) != own_node.end();
    };
    EXPECT_FALSE(plan_of(own_node).has_levels());
    onesided::pe_index remote = 0;
    while (is_near(remote))
      remote++;
    EXPECT_FALSE(plan_of({own_node[1], remote}).has_levels());
    auto const plan = plan_of({own_node[1], remote, own_node[0]});
    EXPECT_TRUE(plan.has_levels());
    EXPECT_EQ(plan.node_of, (std::vector<int32_t>{0, 1, 0}));
    EXPECT_EQ(plan.place_of, (std::vector<int32_t>{0, 0, 1}));
    EXPECT_EQ(plan.member_count_max, 2);
  });
}

// A reused slot continues with the numbers in its words.
TEST_P(collectives_on, slots_are_used_again) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    auto *const value = reinterpret_cast<uint64_t *>(self.heap(0));
    for (int turn = 0; turn < 150; turn++) {
      int const first = turn % world.count();
      auto subteam =
          self.teams.split(world, {.start = first, .step = 1, .count = world.count() - first}, 0);
      ASSERT_TRUE(subteam.ok()) << turn;
      if (subteam.value() == nullptr)
        continue;
      collective coll{*subteam.value()};
      for (int i = 0; i < turn % 7; i++) {
        value[0] = uint64_t(i + turn);
        ASSERT_EQ(coll.reduce(reduction_of<uint64_t, sum>, value + 1, value, 1), status::ok);
        ASSERT_EQ(value[1], value[0] * uint64_t(subteam.value()->count()));
        ASSERT_EQ(coll.sync(), status::ok);
        ASSERT_EQ(coll.broadcast(value + 2, value, 8, i % subteam.value()->count()), status::ok);
        ASSERT_EQ(value[2], value[0]);
      }
      ASSERT_EQ(self.teams.destroy(subteam.value()), status::ok);
    }
  });
}

// Two threads of each PE split two parents at the same time. The teams have different slots.
TEST_P(collectives_on, threads_split_different_parents_at_the_same_time) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    team_set::stride const everyone{.start = 0, .step = 1, .count = world.count()};
    auto const split_often = [&](team &parent) {
      for (int turn = 0; turn < 100; turn++) {
        auto subteam = self.teams.split(parent, everyone, 0);
        ASSERT_TRUE(subteam.ok()) << turn;
        ASSERT_EQ(subteam.value()->count(), world.count());
        ASSERT_EQ(self.teams.destroy(subteam.value()), status::ok);
      }
    };
    std::thread other{[&] {
      split_often(self.teams.legacy_world());
    }};
    split_often(world);
    other.join();
  });
}

TEST_P(collectives_on, who_is_in_too_many_teams_is_told) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    std::vector<team *> teams;
    for (;;) {
      auto next = self.teams.split(world, {.start = 0, .step = 1, .count = world.count()}, 0);
      if (!next.ok()) {
        ASSERT_EQ(next.error(), status::no_space);
        break;
      }
      teams.push_back(next.value());
    }
    EXPECT_EQ(teams.size(), team_count_max - 3);
    ASSERT_EQ(self.teams.destroy(teams.back()), status::ok);
    teams.pop_back();
    auto again = self.teams.split(world, {.start = 0, .step = 1, .count = world.count()}, 0);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(
        self.teams.split(world, {.start = 0, .step = 1, .count = world.count() + 1}, 0).error(),
        status::invalid);
    EXPECT_EQ(self.teams.split(world, {.start = 0, .step = 0, .count = 2}, 0).error(),
              status::invalid);
    EXPECT_EQ(self.teams.split(world, {.start = -1, .step = 1, .count = 1}, 0).error(),
              status::invalid);
    EXPECT_EQ(self.teams.destroy(&world), status::invalid);
    EXPECT_EQ(collective{world}.broadcast(self.heap(0), self.heap(8), 8, world.count()),
              status::invalid);
  });
}

// Expects the status of an operation that a departed PE will never enter.
void expect_departed(test_pe &self, status code, onesided::pe_index pe, departure_kind kind) {
  EXPECT_EQ(code, status::peer_lost);
  auto const departed = self.teams.departed();
  ASSERT_TRUE(departed);
  EXPECT_EQ(departed->pe, pe);
  EXPECT_EQ(departed->kind, kind);
}

TEST_P(collectives_on, a_pe_that_leaves_pairs_with_no_operation_and_ends_those_that_wait_for_it) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    auto pairs =
        self.teams.split(world, {.start = 0, .step = 1, .count = std::min(world.count(), 2)}, 0);
    ASSERT_TRUE(pairs.ok());
    for (int i = 0; i < 3; i++)
      ASSERT_EQ(collective{world}.sync(), status::ok);
    if (world.count() == 1) {
      EXPECT_EQ(self.teams.leave(departure_kind::finalize), status::ok);
      return;
    }
    onesided::pe_index const quitter = 1;
    if (self.job.me() == quitter) {
      EXPECT_EQ(self.teams.leave(departure_kind::exit), status::ok);
      return;
    }
    self.dawdle();
    expect_departed(self, collective{world}.sync(), quitter, departure_kind::exit);
    if (pairs.value() != nullptr)
      expect_departed(self, collective{*pairs.value()}.sync(), quitter, departure_kind::exit);
    EXPECT_EQ(self.teams.leave(departure_kind::finalize), status::ok);  // so that the test ends
  });
}

TEST_P(collectives_on, a_pe_that_leaves_late_for_others_has_done_its_part) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    auto *const word = reinterpret_cast<uint64_t *>(self.heap(0));
    word[0] = uint64_t(self.job.me()) + 1;
    int32_t const root = world.count() - 1;
    // The root departs at once. Its departure is announced while the others have not yet read what
    // it put.
    if (self.job.me() != root)
      std::this_thread::sleep_for(std::chrono::milliseconds(60 + 10 * self.job.me()));
    ASSERT_EQ(collective{world}.broadcast(word + 1, word, 8, root), status::ok);
    EXPECT_EQ(word[1], uint64_t(root) + 1);
    EXPECT_EQ(self.teams.leave(departure_kind::finalize), status::ok);
    EXPECT_FALSE(self.teams.departed());
  });
}

// A broadcasting root does not wait for others, and the others wait only for the root, up to the
// capacity of the entries.
TEST_P(collectives_on, many_roots_in_turn_without_meeting) {
  with_teams(world(), [](test_pe &self) {
    auto &world = self.teams.world();
    collective coll{world};
    constexpr size_t turns = 400;
    auto *const source = reinterpret_cast<uint64_t *>(self.heap(0));
    auto *const target = reinterpret_cast<uint64_t *>(self.heap(buffer_size));
    for (size_t turn = 0; turn < turns; turn++) {
      int32_t const root = int32_t(turn / 5) % world.count();
      source[turn] = turn * 1000 + uint64_t(self.job.me());
      if (turn % 16 == 0)
        self.dawdle();
      ASSERT_EQ(coll.broadcast(target + turn, source + turn, 8, root), status::ok);
      ASSERT_EQ(target[turn], turn * 1000 + uint64_t(root));
    }
  });
}

std::vector<shape> shapes() {
  std::vector<shape> list;
  for (int32_t const count : {1, 2, 3, 4, 7, 16}) {
    for (auto const mode : {team_set::group_mode::mapped_oversubscribed,
                            team_set::group_mode::mapped_dedicated,
                            team_set::group_mode::fabric}) {
      if (count > 7 && mode == team_set::group_mode::mapped_dedicated)
        continue;  // each PE would need a processor
      list.push_back({count, mode});
    }
  }
  // Two levels, with nodes of one size and of several.
  list.push_back({4, team_set::group_mode::mapped_dedicated, 2});
  list.push_back({7, team_set::group_mode::mapped_oversubscribed, 3});
  return list;
}

std::string name_of(const testing::TestParamInfo<shape> &info) {
  constexpr const char *names[] = {
      "_pes_mapped", "_pes_oversubscribed", "_pes_dedicated", "_pes_by_fabric"};
  std::string const nodes = "_on_" + std::to_string(info.param.node_count) + "_nodes";
  return std::to_string(info.param.count) + names[size_t(info.param.mode)] +
         (info.param.node_count > 1 ? nodes : "");
}

// One PE runs its own code for longer than it takes the others to be seen waiting.
void expect_stall(const test_world &world) {
  with_teams(world, [](test_pe &self) {
    self.teams.stalls().start([] { return true; });
    ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
    if (self.job.me() == 0) {
      EXPECT_EQ(self.teams.leave(departure_kind::exit), status::ok);
      return;
    }
    auto &guard = self.teams.guard_for("this test");
    auto *const word = reinterpret_cast<uint64_t *>(self.heap(0));
    bool const is_late = self.job.me() == 1;
    if (is_late)
      std::this_thread::sleep_for(std::chrono::seconds{5});
    auto const start = std::chrono::steady_clock::now();
    auto const is_set = [&] {
      return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
    };
    status const code = wait_guarded(self.job, &guard, is_set, std::as_bytes(std::span{word, 1}));
    expect_departed(self, code, 0, departure_kind::exit);
    if (auto const &waits = self.teams.stalls().describe(); !waits.empty()) {
      EXPECT_NE(waits.find("in this test"), std::string::npos) << waits;
    }
    if (!is_late) {
      EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds{4});
    }
    EXPECT_EQ(self.teams.leave(departure_kind::finalize), status::ok);  // so that the test ends
  });
}

TEST(stalls, pes_that_all_wait_after_one_has_left_do_not_wait_for_ever) {
  expect_stall({.count = 3});
}
TEST(stalls, pes_of_several_nodes_that_all_wait_do_not_wait_for_ever) {
  expect_stall({.count = 4, .node_count = 2});
}

INSTANTIATE_TEST_SUITE_P(counts, collectives_on, testing::ValuesIn(shapes()), name_of);

}  // namespace
}  // namespace tanada::shmem
