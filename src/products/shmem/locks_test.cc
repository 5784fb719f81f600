// Tests of the distributed lock, with PEs as threads.
#include "products/shmem/locks.hpp"

#include "products/shmem/collectives/testing.hpp"

namespace tanada::shmem {
namespace {

// Memory of PE 0 that only the lock protects.
struct guarded {
  uint64_t lock, holder, count;
};

class locks : public testing::TestWithParam<int32_t> {};

TEST_P(locks, one_at_a_time_and_all_come_to_it) {
  int32_t const count = GetParam();
  with_teams({.count = count}, [count](test_pe &self) {
    for (size_t index = 0; index < 3; index++) {  // with different homes
      auto *const shared = reinterpret_cast<guarded *>(self.heap(index * 4096 + index * 8));
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
        uint64_t before = 1, old_count = 0;
        ASSERT_EQ(self.context.get_value(before, &shared->holder, 0), status::ok);
        ASSERT_EQ(before, 0u) << "another PE holds the lock";
        ASSERT_EQ(self.context.put_value(&shared->holder, uint64_t(self.job.me()) + 1, 0),
                  status::ok);
        ASSERT_EQ(self.context.get_value(old_count, &shared->count, 0), status::ok);
        self.dawdle();
        ASSERT_EQ(self.context.put_value(&shared->count, old_count + 1, 0), status::ok);
        ASSERT_EQ(self.context.put_value(&shared->holder, uint64_t{0}, 0), status::ok);
        ASSERT_EQ(self.context.quiet(), status::ok);
        ASSERT_EQ(held.release(), status::ok);
      }
      ASSERT_EQ(collective{self.teams.world()}.sync(), status::ok);
      uint64_t total = 0;
      ASSERT_EQ(self.context.get_value(total, &shared->count, 0), status::ok);
      ASSERT_EQ(total, turns * uint64_t(count));
      ASSERT_EQ(shared->lock, 0u) << "a free lock is zero everywhere";
    }
  });
}

TEST_P(locks, who_came_first_is_served_first) {
  int32_t const count = GetParam();
  with_teams({.count = count}, [count](test_pe &self) {
    auto *const shared = reinterpret_cast<guarded *>(self.heap(0));
    auto *const turn = reinterpret_cast<uint64_t *>(self.heap(64));    // memory of PE 0
    auto *const order = reinterpret_cast<uint64_t *>(self.heap(128));  // memory of PE 0
    lock held{{&self.job, &self.context}, &shared->lock};
    collective coll{self.teams.world()};
    bool const is_first = self.job.me() == 0;
    if (is_first) {
      ASSERT_EQ(held.acquire(), status::ok);
    }
    ASSERT_EQ(coll.sync(), status::ok);
    // The PEs enter the queue one after another, the last PE first. PE 0 releases the lock when all
    // are queued.
    uint64_t const before_me = is_first ? uint64_t(count - 1) : uint64_t(count - 1 - self.job.me());
    for (uint64_t queued = 0; queued < before_me; std::this_thread::yield()) {
      ASSERT_EQ(self.context.update<uint64_t>(seams::fabric_atomic::fetch, turn, 0, 0, &queued, 0),
                status::ok);
    }
    if (is_first) {
      ASSERT_EQ(held.release(), status::ok);
    } else {
      std::thread announcer{[&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(
            self.context.put_signal(nullptr, nullptr, 0, turn, onesided::signal_kind::add, 1, 0),
            status::ok);
      }};
      ASSERT_EQ(held.acquire(), status::ok);
      announcer.join();
      uint64_t place = 0;
      ASSERT_EQ(self.context.update<uint64_t>(seams::fabric_atomic::add, order, 1, 0, &place, 0),
                status::ok);
      EXPECT_EQ(place, before_me);
      ASSERT_EQ(held.release(), status::ok);
    }
    ASSERT_EQ(coll.sync(), status::ok);
  });
}

TEST(lock, addresses_are_checked) {
  with_teams({.count = 1}, [](test_pe &self) {
    uint64_t local_word = 0;
    lock wrong{{&self.job, &self.context}, &local_word};
    EXPECT_EQ(wrong.acquire(), status::range);
    EXPECT_EQ(wrong.try_acquire().error(), status::range);
    EXPECT_EQ(wrong.release(), status::range);
  });
}

INSTANTIATE_TEST_SUITE_P(counts, locks, testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace tanada::shmem
