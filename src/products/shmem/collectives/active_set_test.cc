// Tests of the deprecated collectives on active sets, with PEs as threads.
#include "products/shmem/collectives/active_set.hpp"

#include <cstring>

#include "products/shmem/collectives/testing.hpp"

namespace tanada::shmem {
namespace {

// Acts as the specification demands of a program: it uses several signal arrays in turn, with a
// barrier before one is reused.
class set_check {
 public:
  set_check(test_pe &self, const active_set &set, long *sync)
      : self_{self},
        members_{set.members(self.job)},
        sync_{sync},
        channel_{&self.job, &self.context} {}

  bool is_member() const {
    return members_.count() != 0;
  }

  void run(size_t size) {
    ASSERT_EQ(group_of(0).sync(), status::ok);
    broadcast(size);
    auto *const source = self_.heap(0);
    auto *const target = self_.heap(size_t{1} << 20);
    self_.dawdle();
    std::memset(source, 1 + members_.me, size);
    ASSERT_EQ(group_of(2).fcollect(target, source, size), status::ok);
    expect_blocks(target, size);
    ASSERT_EQ(group_of(0).sync(), status::ok);
    ASSERT_EQ(group_of(3).collect(target, source, size), status::ok);
    expect_blocks(target, size);
    ASSERT_EQ(group_of(0).sync(), status::ok);
    reduce(size);
    for (size_t i = 0; i < size_t(members_.count()); i++)
      std::memset(source + i * size, int(1 + i), size);
    ASSERT_EQ(group_of(0).sync(), status::ok);
    ASSERT_EQ(group_of(5).alltoall(target, source, size), status::ok);
    for (size_t i = 0; i < size * size_t(members_.count()); i++)
      ASSERT_EQ(int(target[i]), 1 + members_.me);
    ASSERT_EQ(group_of(0).sync(), status::ok);
    // The first array is that of the syncs; other members may already be in the next one.
    for (size_t i = sync_words; i < array_count * sync_words; i++)
      ASSERT_EQ(sync_[i], 0) << "the arrays must be zero again";
    ASSERT_EQ(group_of(0).sync(), status::ok);
  }

 private:
  static constexpr size_t array_count = 6;

  fabric_group group_of(size_t array) const {
    return fabric_group{channel_, members_, signals_in_array(sync_ + array * sync_words)};
  }

  void expect_blocks(const std::byte *target, size_t size) {
    for (size_t i = 0; i < size * size_t(members_.count()); i++)
      ASSERT_EQ(int(target[i]), int(1 + i / size));
  }

  void broadcast(size_t size) {
    auto *const source = self_.heap(0);
    auto *const target = self_.heap(size_t{1} << 20);
    int32_t const root = members_.count() - 1;
    std::memset(source, 0x40 + members_.me, size);
    std::memset(target, 0, size);
    ASSERT_EQ(group_of(0).sync(), status::ok);
    self_.dawdle();
    ASSERT_EQ(group_of(1).broadcast(target, source, size, root, false), status::ok);
    auto const wanted = members_.me == root ? std::byte{0} : std::byte(0x40 + root);
    for (size_t i = 0; i < size; i++)
      ASSERT_EQ(target[i], wanted);
    ASSERT_EQ(group_of(0).sync(), status::ok);
  }

  void reduce(size_t size) {
    auto *const values = reinterpret_cast<double *>(self_.heap(0));
    size_t const count = size / sizeof(double);
    for (size_t i = 0; i < count; i++)
      values[i] = double(members_.me + 1) / double(i + 3);
    self_.dawdle();
    ASSERT_EQ(group_of(4).reduce(reduction_of<double, sum>, values, values, count), status::ok);
    for (size_t i = 0; i < count; i++) {
      double wanted = 1 / double(i + 3);
      for (int32_t member = 1; member < members_.count(); member++)
        wanted += double(member + 1) / double(i + 3);
      ASSERT_EQ(values[i], wanted);
    }
  }

  test_pe &self_;
  group members_;
  long *sync_;
  channel_ref channel_;
};

TEST(active_set, sets_that_overlap_take_turns_with_the_same_arrays) {
  for (int32_t const count : {1, 2, 5, 8}) {
    with_teams({.count = count}, [count](test_pe &self) {
      auto *const sync = reinterpret_cast<long *>(self.heap(size_t{15} << 20));
      active_set const sets[] = {{0, 0, count},
                                 {0, 1, (count + 1) / 2},
                                 {count / 2, 0, count - count / 2},
                                 {0, 0, 1},
                                 {0, 2, (count + 3) / 4}};
      for (int turn = 0; turn < 20; turn++) {
        for (auto const &set : sets) {
          set_check check{self, set, sync};
          if (check.is_member())
            check.run(turn % 2 == 0 ? 24 : 90000);
          // The arrays are free again when all members of both sets know it.
          ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
        }
      }
    });
  }
}

TEST(active_set, who_does_not_belong_is_nobody) {
  with_teams({.count = 3}, [](test_pe &self) {
    auto const count_of = [&](int start, int log_stride, int size) {
      return active_set{start, log_stride, size}.members(self.job).count();
    };
    EXPECT_EQ(count_of(0, 0, 4), 0);
    EXPECT_EQ(count_of(-1, 0, 2), 0);
    EXPECT_EQ(count_of(0, 0, 0), 0);
    EXPECT_EQ(count_of(0, 31, 2), 0);
    EXPECT_EQ(count_of(0, 30, 2), 0);
    EXPECT_EQ(count_of(0, 1, 2), self.job.me() == 1 ? 0 : 2);
    EXPECT_EQ(count_of(0, 0, 3), 3);
  });
}

}  // namespace
}  // namespace tanada::shmem
