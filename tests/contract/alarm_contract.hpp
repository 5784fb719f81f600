// The contract of seams/alarm/alarm.hpp, as a typed suite. Subject has an alarm(), a clock(), and
// run(), which runs programs that block side by side until all have ended.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <vector>

#include "seams/alarm/shared_alarm.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::contract {

template <class Subject>
class alarm_contract : public testing::Test {
 protected:
  static constexpr uint64_t long_ns = 60'000'000'000;  // a lost wake-up would show

  // Returns whether `is_over` held within the time of one lost wake-up.
  bool wait_until(const std::function<bool()> &is_over) {
    uint64_t const limit_ns = subject_.clock().now_ns() + long_ns;
    while (!is_over() && subject_.clock().now_ns() < limit_ns)
      subject_.clock().sleep_ns(50'000);
    return is_over();
  }

  Subject subject_;
};
TYPED_TEST_SUITE_P(alarm_contract);

TYPED_TEST_P(alarm_contract, a_wait_for_a_word_that_has_changed_returns_at_once) {
  std::atomic<uint32_t> word{1};
  bool has_changed = false;
  uint64_t took_ns = 0;
  this->subject_.run({[&] {
    uint64_t const begin_ns = this->subject_.clock().now_ns();
    has_changed = this->subject_.alarm().wait(word, 0, this->long_ns);
    took_ns = this->subject_.clock().now_ns() - begin_ns;
  }});
  EXPECT_TRUE(has_changed);
  EXPECT_LT(took_ns, this->long_ns / 2);
}

TYPED_TEST_P(alarm_contract, a_wait_without_a_wake_up_lasts_its_time) {
  constexpr uint64_t timeout_ns = 2'000'000;
  std::atomic<uint32_t> word{1};
  uint64_t took_ns = 0;
  this->subject_.run({[&] {
    uint64_t begin_ns = 0;
    do {  // it may return early, with true
      begin_ns = this->subject_.clock().now_ns();
    } while (this->subject_.alarm().wait(word, 1, timeout_ns));
    took_ns = this->subject_.clock().now_ns() - begin_ns;
  }});
  EXPECT_GE(took_ns, timeout_ns);
}

TYPED_TEST_P(alarm_contract, a_wake_up_ends_the_waits_of_all_sleepers) {
  constexpr size_t sleeper_count = 3;
  std::atomic<uint32_t> word{0}, sleepers{0};
  std::vector<uint64_t> took_ns(sleeper_count, 0);
  std::vector<std::function<void()>> programs;
  for (size_t i = 0; i < sleeper_count; i++) {
    programs.emplace_back([&, i] {
      uint64_t const begin_ns = this->subject_.clock().now_ns();
      sleepers++;
      while (word.load() == 0) {
        if (!this->subject_.alarm().wait(word, 0, this->long_ns))
          break;
      }
      took_ns[i] = this->subject_.clock().now_ns() - begin_ns;
    });
  }
  programs.emplace_back([&] {
    EXPECT_TRUE(this->wait_until([&] { return sleepers.load() == sleeper_count; }));
    word.store(1);
    this->subject_.alarm().wake_all(word);
  });
  this->subject_.run(std::move(programs));
  for (uint64_t const each : took_ns)
    EXPECT_LT(each, this->long_ns);
}

// Two programs take turns: a wake-up that came between a look at the word and the sleep would cost
// a whole timeout.
TYPED_TEST_P(alarm_contract, a_wake_up_after_the_last_look_at_the_word_is_not_missed) {
  constexpr uint32_t turn_count = 2000;
  std::atomic<uint32_t> word{0};
  uint64_t lost = 0;
  auto const play = [&](uint32_t parity) {
    for (;;) {
      uint32_t const turn = word.load();
      if (turn >= turn_count)
        return;
      if (turn % 2 == parity) {
        word.store(turn + 1);
        this->subject_.alarm().wake_all(word);
      } else if (!this->subject_.alarm().wait(word, turn, this->long_ns)) {
        lost++;
        return;
      }
    }
  };
  this->subject_.run({[&] { play(0); },
                      [&] {
                        play(1);
                      }});
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(word.load(), turn_count);
}

TYPED_TEST_P(alarm_contract, a_shared_alarm_wakes_its_sleeper) {
  seams::shared_alarm shared;
  std::atomic<bool> is_ready{false};
  uint64_t took_ns = 0;
  this->subject_.run(
      {[&] {
         uint64_t const begin_ns = this->subject_.clock().now_ns();
         while (!is_ready.load())
           shared.sleep([&] { return is_ready.load(); }, this->long_ns, {}, this->subject_.alarm());
         took_ns = this->subject_.clock().now_ns() - begin_ns;
       },
       [&] {
         EXPECT_TRUE(this->wait_until([&] { return shared.has_sleepers(); }));
         is_ready.store(true);
         EXPECT_TRUE(this->wait_until([&] {
           shared.wake({}, this->subject_.alarm());
           return !shared.has_sleepers();
         }));
       }});
  EXPECT_LT(took_ns, this->long_ns);
  EXPECT_FALSE(shared.has_sleepers());
}

REGISTER_TYPED_TEST_SUITE_P(alarm_contract,
                            a_wait_for_a_word_that_has_changed_returns_at_once,
                            a_wait_without_a_wake_up_lasts_its_time,
                            a_wake_up_ends_the_waits_of_all_sleepers,
                            a_wake_up_after_the_last_look_at_the_word_is_not_missed,
                            a_shared_alarm_wakes_its_sleeper);

}  // namespace tanada::contract
