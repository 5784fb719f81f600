// Tests of yields beside threads that compute on the same processor.
#include "executor/yield.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tanada::simt::host {
namespace {

class yields : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof before_, &before_), 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &before_))
      processor++;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof only, &only), 0);
    for (int i = 0; i < 3; i++) {  // they inherit the affinity
      others_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed))
          std::atomic_signal_fence(std::memory_order_seq_cst);
      });
    }
  }
  void TearDown() override {
    over_ = true;
    for (std::thread &spinner : others_)
      spinner.join();
    EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof before_, &before_), 0);
  }

  // True: a yield was refused.
  bool is_refused_soon() {
    for (int i = 0; i < 1000; i++) {
      if (!thread_.yield())
        return true;
    }
    return false;
  }

  cpu_set_t before_{};
  std::atomic<bool> over_ = false;
  std::vector<std::thread> others_;
  yielder thread_;
};

TEST_F(yields, a_slow_one_is_followed_by_sleeps) {
  EXPECT_TRUE(is_refused_soon());
}

TEST_F(yields, are_tried_again_after_a_while) {
  ASSERT_TRUE(is_refused_soon());
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  EXPECT_TRUE(thread_.yield());
}

}  // namespace
}  // namespace tanada::simt::host
