#include "products/shmem/locks.hpp"

#include "products/shmem/collectives/testing.hpp"

namespace tanada::shmem {
namespace {

// Memory of PE 0 that nothing but the lock protects.
struct guarded {
  uint64_t lock, holder, count;
};

class locks : public testing::TestWithParam<int32_t> {};

TEST_P(locks, one_at_a_time_and_all_come_to_it) {
  int32_t const count = GetParam();
  with_teams({.count = count}, [count](test_pe &self) {
    for (size_t which = 0; which < 3; which++) {  // of different homes
      auto *const shared = reinterpret_cast<guarded *>(self.heap(which * 4096 + which * 8));
      lock held{{&self.job, &self.context}, &shared->lock};
      constexpr uint64_t turns = 60;
      for (uint64_t turn = 0; turn < turns; turn++) {
        if (turn % 3 == 0) {
          for (;;) {
            auto got = held.try_acquire();
            ASSERT_TRUE(got.ok());
            if (got.value())
              break;
            std::this_thread::yield();
          }
        } else {
          ASSERT_EQ(held.acquire(), status::ok);
        }
        uint64_t before = 1, seen = 0;
        ASSERT_EQ(self.context.get_value(before, &shared->holder, 0), status::ok);
        ASSERT_EQ(before, 0u) << "somebody else holds the lock";
        ASSERT_EQ(self.context.put_value(&shared->holder, uint64_t(self.job.me()) + 1, 0),
                  status::ok);
        ASSERT_EQ(self.context.get_value(seen, &shared->count, 0), status::ok);
        self.dawdle();
        ASSERT_EQ(self.context.put_value(&shared->count, seen + 1, 0), status::ok);
        ASSERT_EQ(self.context.put_value(&shared->holder, uint64_t{0}, 0), status::ok);
        ASSERT_EQ(self.context.quiet(), status::ok);
        ASSERT_EQ(held.release(), status::ok);
      }
      ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
      uint64_t all = 0;
      ASSERT_EQ(self.context.get_value(all, &shared->count, 0), status::ok);
      ASSERT_EQ(all, turns * uint64_t(count));
      ASSERT_EQ(shared->lock, 0u) << "nobody holds it: zero everywhere";
    }
  });
}

TEST_P(locks, who_came_first_is_served_first) {
  int32_t const count = GetParam();
  with_teams({.count = count}, [count](test_pe &self) {
    auto *const shared = reinterpret_cast<guarded *>(self.heap(0));
    auto *const turn = reinterpret_cast<uint64_t *>(self.heap(64));    // of PE 0
    auto *const order = reinterpret_cast<uint64_t *>(self.heap(128));  // of PE 0
    lock held{{&self.job, &self.context}, &shared->lock};
    collective all{self.teams.world()};
    bool const is_first = self.job.me() == 0;
    if (is_first) {
      ASSERT_EQ(held.acquire(), status::ok);
    }
    ASSERT_EQ(all.sync(), status::ok);
    // One after another gets into the queue, the last PE first; the first lets them go when all are
    // there.
    uint64_t const before_me = is_first ? uint64_t(count - 1) : uint64_t(count - 1 - self.job.me());
    for (uint64_t seen = 0; seen < before_me; std::this_thread::yield()) {
      ASSERT_EQ(self.context.update<uint64_t>(port::fabric_atomic::fetch, turn, 0, 0, &seen, 0),
                status::ok);
    }
    if (is_first) {
      ASSERT_EQ(held.release(), status::ok);
    } else {
      std::thread announcer{[&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(self.context.put_signal(nullptr, nullptr, 0, turn, pgas::signal_kind::add, 1, 0),
                  status::ok);
      }};
      ASSERT_EQ(held.acquire(), status::ok);
      announcer.join();
      uint64_t place = 0;
      ASSERT_EQ(self.context.update<uint64_t>(port::fabric_atomic::add, order, 1, 0, &place, 0),
                status::ok);
      EXPECT_EQ(place, before_me);
      ASSERT_EQ(held.release(), status::ok);
    }
    ASSERT_EQ(all.sync(), status::ok);
  });
}

TEST(lock, addresses_are_checked) {
  with_teams({.count = 1}, [](test_pe &self) {
    uint64_t here = 0;
    lock wrong{{&self.job, &self.context}, &here};
    EXPECT_EQ(wrong.acquire(), status::range);
    EXPECT_EQ(wrong.try_acquire().error(), status::range);
    EXPECT_EQ(wrong.release(), status::range);
  });
}

INSTANTIATE_TEST_SUITE_P(counts, locks, testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace tanada::shmem
