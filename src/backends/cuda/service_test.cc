// Tests of the protocol between host code and the service kernel, with a thread in place of the
// kernel.
#include "backends/cuda/service.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "backends/cuda/queue.hpp"
#include "backends/cuda/testing/fake_device.hpp"
#include "seams/fabric/fabric.hpp"

namespace tanada::backends::cuda {
namespace {

constexpr size_t part_size = 32768, thread_count = 3;
constexpr uint64_t timeout_ns = 5'000'000'000;

class service_test : public testing::Test {
 protected:
  service_test() : memory_(part_size * (thread_count + 1)) {
    fake().memory = memory_.data();
    fake().memory_size = memory_.size();
    fake().is_full = false;
    fake().copies_ended_max = ~uint64_t{0};
    fake().start_delay_max_us = 0;
    fake().step_delay_max_us = 0;
    EXPECT_EQ(queue_open(0, timeout_ns, &queue_), TND_OK);
  }
  ~service_test() override {
    queue_close(queue_);
  }
  tnd_status wait() {
    return queue_wait(queue_, now_ns() + timeout_ns);
  }
  uint64_t *word(size_t index) {
    return reinterpret_cast<uint64_t *>(memory_.data()) + index;
  }
  uint64_t value(size_t index) {
    return __atomic_load_n(word(index), __ATOMIC_ACQUIRE);
  }

  static constexpr tnd_gpu_update add_one{uint32_t(seams::fabric_atomic::add), 8, 1, 0};
  std::vector<unsigned char> memory_;
  tnd_gpu_queue *queue_ = nullptr;
};

TEST_F(service_test, a_put_is_performed_by_the_kernel) {
  // The thread in place of the kernel may start later than a command waits for it. A later command
  // then finds it running.
  uint64_t const limit = now_ns() + timeout_ns;
  for (uint64_t sent = 1;; sent++) {
    uint64_t const copies = fake().copies;
    ASSERT_EQ(queue_put(queue_, word(0), &sent, 8), TND_OK);
    ASSERT_EQ(wait(), TND_OK) << last_message();
    ASSERT_EQ(value(0), sent);
    if (fake().copies == copies)
      break;
    ASSERT_LT(now_ns(), limit) << "it never starts soon enough";
  }
}

TEST_F(service_test, a_full_device_leaves_puts_to_copy_engines_and_updates_for_later) {
  fake().is_full = true;
  std::this_thread::sleep_for(
      std::chrono::milliseconds{20});  // a kernel that was still running has ended
  uint64_t const sent = 7, copies = fake().copies;
  uint64_t received = 0;
  ASSERT_EQ(queue_put(queue_, word(0), &sent, 8), TND_OK) << last_message();
  EXPECT_EQ(value(0), 7u);
  EXPECT_EQ(fake().copies, copies + 1);
  ASSERT_EQ(queue_get(queue_, &received, word(0), 8), TND_OK);
  EXPECT_EQ(received, 7u);
  ASSERT_EQ(queue_update(queue_, word(1), &add_one, nullptr), TND_OK);
  EXPECT_EQ(queue_wait(queue_, now_ns() + 5'000'000), -ETIMEDOUT);
  for (int i = 0; i < 200; i++)
    ASSERT_EQ(queue_put(queue_, word(2), &sent, 8), TND_OK)
        << last_message();  // more than the ring holds
  EXPECT_EQ(value(1), 0u);
  fake().is_full = false;
  EXPECT_EQ(wait(), TND_OK) << last_message();
  EXPECT_EQ(value(1), 1u);
}

TEST_F(service_test, what_follows_an_update_by_order_waits_with_it) {
  fake().is_full = true;
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  uint64_t const sent = 9;
  ASSERT_EQ(queue_update(queue_, word(0), &add_one, nullptr), TND_OK);
  ASSERT_EQ(queue_order(queue_), TND_OK);
  ASSERT_EQ(queue_put(queue_, word(1), &sent, 8), TND_OK);
  EXPECT_EQ(value(1), 0u);
  fake().is_full = false;
  EXPECT_EQ(wait(), TND_OK) << last_message();
  EXPECT_EQ(value(0) * 100 + value(1), 109u);
}

// A command posted while the kernel closes is performed by that run or the next one. No other
// command is posted that would start the kernel again.
TEST_F(service_test, a_command_that_meets_a_leaving_kernel_is_performed) {
  fake().step_delay_max_us = 40;
  fake().start_delay_max_us = 70;
  for (uint64_t i = 1; i <= 200; i++) {
    ASSERT_EQ(queue_put(queue_, word(0), &i, 8), TND_OK) << last_message();
    ASSERT_EQ(queue_wait(queue_, now_ns() + timeout_ns), TND_OK) << "round " << i;
    ASSERT_EQ(value(0), i);
    uint64_t const until = now_ns() + idle_ns + i % 50 * 1000;
    while (now_ns() < until)
      continue;
  }
}

constexpr size_t long_size = 20'000;  // uses copy engines

TEST_F(service_test, a_wait_does_not_wait_for_what_others_enqueue_meanwhile) {
  std::vector<unsigned char> bytes(long_size);
  uint64_t const before = fake().copies;
  fake().copies_ended_max = before;
  ASSERT_EQ(queue_copy(queue_, word(0), bytes.data(), long_size), TND_OK) << last_message();
  std::atomic<bool> is_over{false}, has_begun{false};
  tnd_status code = -1;
  std::thread waiter{[&] {
    has_begun = true;
    code = wait();
    is_over = true;
  }};
  while (!has_begun)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // it waits
  // There is always a copy in flight; the first one ends after a while.
  uint64_t const limit = now_ns() + 1'000'000'000;
  for (uint32_t i = 0; !is_over && now_ns() < limit; i++) {
    ASSERT_EQ(queue_copy(queue_, word(0), bytes.data(), long_size), TND_OK) << last_message();
    if (i >= 10)
      fake().copies_ended_max = fake().copies - 1;
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  EXPECT_TRUE(is_over);
  EXPECT_EQ(queue_wait(queue_, now_ns()), -ETIMEDOUT);  // the last
  fake().copies_ended_max = ~uint64_t{0};
  waiter.join();
  EXPECT_EQ(code, TND_OK);
  EXPECT_EQ(wait(), TND_OK);
}

TEST_F(service_test, every_wait_ends) {
  std::vector<unsigned char> bytes(long_size);
  constexpr uint64_t short_ns = 50'000'000;
  tnd_gpu_queue *queue = nullptr;
  ASSERT_EQ(queue_open(0, short_ns, &queue), TND_OK);
  fake().copies_ended_max = fake().copies.load();
  auto const ends = [&](auto call) {
    uint64_t const start = now_ns();
    EXPECT_EQ(call(), -ETIMEDOUT);
    EXPECT_LE(now_ns() - start, 40 * short_ns);
  };
  ends([&] { return queue_put(queue, word(0), bytes.data(), long_size); });
  // A waiting thread does not block the waits of others.
  std::thread other_thread{[&] {
    ends([&] { return queue_get(queue, bytes.data(), word(0), long_size); });
  }};
  ends([&] { return queue_wait(queue, now_ns() + short_ns / 10); });
  other_thread.join();
  ASSERT_EQ(queue_order(queue), TND_OK);
  uint64_t old_value = 0;
  ends([&] { return queue_update(queue, word(0), &add_one, &old_value); });
  fake().copies_ended_max = ~uint64_t{0};
  EXPECT_EQ(queue_wait(queue, now_ns() + timeout_ns), TND_OK) << last_message();
  // Waits for the kernel.
  fake().is_full = true;
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  ends([&] { return queue_update(queue, word(1), &add_one, &old_value); });
  fake().is_full = false;
  EXPECT_EQ(queue_wait(queue, now_ns() + timeout_ns), TND_OK) << last_message();
  // Its slot is free again. On a busy machine some updates may be late.
  uint32_t done = 0;
  for (uint64_t const until = now_ns() + timeout_ns; done < 200 && now_ns() < until;)
    done += queue_update(queue, word(1), &add_one, &old_value) == TND_OK;
  EXPECT_EQ(done, 200u);
  EXPECT_GE(old_value, 199u);
  EXPECT_EQ(queue_wait(queue, now_ns() + timeout_ns), TND_OK) << last_message();
  queue_close(queue);
}

// Each thread compares with a model of its part. The kernel starts about when the host gives up,
// and is delayed at every step.
TEST_F(service_test, nothing_is_lost_or_done_twice_whoever_comes_first) {
  fake().start_delay_max_us = 120;
  fake().step_delay_max_us = 30;
  uint64_t const canceled = fake().canceled, copies = fake().copies;
  constexpr int rounds = 100;
  std::vector<std::thread> threads;
  std::vector<uint64_t> adds(thread_count);
  for (size_t t = 0; t < thread_count; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random{uint32_t(t)};
      std::vector<unsigned char> model(part_size), bytes(9000);
      unsigned char *const part = memory_.data() + part_size * (t + 1);
      for (int i = 0; i < rounds; i++) {
        size_t const size = random() % 4 == 0 ? random() % bytes.size() : random() % 60,
                     offset = random() % (part_size - bytes.size());
        for (size_t k = 0; k < size; k++)
          bytes[k] = uint8_t(i + k);
        uint64_t old_value = 0;
        ASSERT_EQ(queue_put(queue_, part + offset, bytes.data(), size), TND_OK) << last_message();
        if (size != 0)
          std::memcpy(model.data() + offset, bytes.data(), size);
        bool const asks = random() % 4 == 0;
        ASSERT_EQ(queue_update(queue_, word(0), &add_one, asks ? &old_value : nullptr), TND_OK)
            << last_message();
        adds[t]++;
        ASSERT_EQ(
            random() % 2 == 0 ? queue_wait(queue_, now_ns() + timeout_ns) : queue_order(queue_),
            TND_OK)
            << last_message();
        ASSERT_EQ(queue_get(queue_, bytes.data(), part + offset, size), TND_OK) << last_message();
        ASSERT_TRUE(std::equal(
            bytes.begin(), bytes.begin() + ptrdiff_t(size), model.begin() + ptrdiff_t(offset)))
            << "round " << i;
        if (random() % 8 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        if (random() % 64 == 0)
          stop_services(0);
      }
    });
  }
  for (auto &thread : threads)
    thread.join();
  ASSERT_EQ(wait(), TND_OK) << last_message();
  uint64_t sum = 0;
  for (uint64_t count : adds)
    sum += count;
  EXPECT_EQ(value(0), sum);
  std::printf("%llu kernels, %llu canceled, %llu copies\n",
              static_cast<unsigned long long>(fake().runs.load()),
              static_cast<unsigned long long>(fake().canceled - canceled),
              static_cast<unsigned long long>(fake().copies - copies));
}

}  // namespace
}  // namespace tanada::backends::cuda
