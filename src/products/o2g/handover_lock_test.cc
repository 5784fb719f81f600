// Deferred work runs in order, is never lost, and occupies the holder only for a bounded time.

#include "products/o2g/handover_lock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>
#include <vector>

namespace tanada::o2g {
namespace {

struct counting_job final : handover_lock::job {
  counting_job(std::vector<int> &results, int value) : results_{results}, value_{value} {}
  void run() noexcept override {
    results_.push_back(value_);
  }

  std::vector<int> &results_;
  int value_;
};

bool defer(handover_lock &lock, std::vector<int> &results, int value, bool ignore_limits = false) {
  std::unique_ptr<handover_lock::job> work = std::make_unique<counting_job>(results, value);
  return lock.defer(work, ignore_limits);
}

TEST(handover_lock, runs_work_at_once_while_it_is_free) {
  handover_lock lock;
  std::vector<int> done;
  EXPECT_TRUE(defer(lock, done, 1));
  EXPECT_EQ(done, (std::vector{1}));
  EXPECT_FALSE(lock.is_contended());
}

TEST(handover_lock, has_its_holder_do_what_was_left_in_order) {
  handover_lock lock;
  std::vector<int> done;
  lock.lock();
  std::thread worker{[&] {
    for (int i = 0; i < 5; i++)
      EXPECT_TRUE(defer(lock, done, i));
  }};
  worker.join();
  EXPECT_TRUE(done.empty());
  EXPECT_TRUE(lock.is_contended());
  lock.unlock();
  EXPECT_EQ(done, (std::vector{0, 1, 2, 3, 4}));
}

TEST(handover_lock, bounds_what_is_left) {
  handover_lock lock;
  std::vector<int> done;
  lock.lock();
  for (uint32_t i = 0; i < handover_lock::job_count_max; i++)
    ASSERT_TRUE(defer(lock, done, 0));
  EXPECT_FALSE(defer(lock, done, 1));
  EXPECT_TRUE(defer(lock, done, 2, true));
  lock.unlock();
  EXPECT_EQ(done.size(), handover_lock::job_count_max + 1);
  EXPECT_TRUE(defer(lock, done, 3));
}

// A job that defers the next one, like another thread that posts without a pause.
struct endless_work {
  static constexpr uint32_t run_count_max = 16 * handover_lock::job_count_max;

  handover_lock &lock;
  uint32_t run_count = 0;
  bool is_refused = false;
};

struct endless_job final : handover_lock::job {
  explicit endless_job(endless_work &work) : work_{work} {}
  void run() noexcept override {
    if (++work_.run_count >= endless_work::run_count_max)
      return;
    std::unique_ptr<job> next = std::make_unique<endless_job>(work_);
    work_.is_refused = !work_.lock.defer(next);
  }

  endless_work &work_;
};

TEST(handover_lock, keeps_its_holder_for_a_bounded_number_of_jobs) {
  handover_lock lock;
  std::vector<int> done;
  auto const expect_end = [&](const endless_work &work) {
    EXPECT_TRUE(work.is_refused);
    EXPECT_LE(work.run_count, handover_lock::job_count_max);
    EXPECT_TRUE(defer(lock, done, 1)) << "the next holder must accept work again";
  };
  endless_work before{lock};
  lock.lock();
  std::unique_ptr<handover_lock::job> job = std::make_unique<endless_job>(before);
  EXPECT_TRUE(lock.defer(job));
  lock.unlock();
  expect_end(before);
  endless_work at_once{lock};
  job = std::make_unique<endless_job>(at_once);
  EXPECT_TRUE(lock.defer(job));
  expect_end(at_once);
  EXPECT_EQ(done.size(), 2u);
}

// The work of one thread is done in its order, whether deferred or done under the lock, and none is
// lost.
TEST(handover_lock, loses_nothing_between_threads) {
  constexpr int thread_count = 4, round_count = 20'000;
  handover_lock lock;
  std::array<std::vector<int>, thread_count> done;
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < round_count; i++) {
        if (i % 7 == 0) {
          std::lock_guard const held{lock};
          done[size_t(t)].push_back(i);
        } else if (std::unique_lock const held{lock, std::try_to_lock}; held.owns_lock()) {
          done[size_t(t)].push_back(i);
        } else {
          while (!defer(lock, done[size_t(t)], i))
            std::this_thread::yield();
        }
      }
    });
  for (std::thread &worker : threads)
    worker.join();
  std::lock_guard const held{lock};
  for (auto const &results : done) {
    ASSERT_EQ(results.size(), size_t(round_count));
    for (int i = 0; i < round_count; i++)
      ASSERT_EQ(results[size_t(i)], i);
  }
}

}  // namespace
}  // namespace tanada::o2g
