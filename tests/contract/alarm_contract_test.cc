// The alarm contract on futexes and on a simulated alarm.
#include "contract/alarm_contract.hpp"

#include <optional>
#include <thread>
#include <utility>

#include "sim/alarm.hpp"
#include "sim/pgas_fibers.hpp"
#include "sim/world.hpp"

namespace tanada::contract {
namespace {

class futex_subject {
 public:
  seams::alarm &alarm() {
    return seams::futex_alarm();
  }
  seams::clock &clock() {
    return seams::monotonic_clock();
  }
  void run(std::vector<std::function<void()>> programs) {
    std::vector<std::thread> threads;
    for (auto &program : programs)
      threads.emplace_back(std::move(program));
    for (auto &thread : threads)
      thread.join();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(futex, alarm_contract, futex_subject);

// Programs are fibers of one thread.
class simulated_subject {
 public:
  explicit simulated_subject(bool loses_wakeups = false) : alarm_{programs(), loses_wakeups} {}

  sim::alarm &alarm() {
    return alarm_;
  }
  seams::clock &clock() {
    return clock_;
  }
  void run(std::vector<std::function<void()>> programs) {
    fibers_.emplace();
    for (auto &program : programs)
      fibers_->add(std::move(program));
    for (size_t i = 0; i < programs.size(); i++)
      later(1 + i, [this, i] { resume(i); });
    while (world_.step()) {
      for (auto const &action : std::exchange(due_, {}))
        action();
    }
    fibers_.reset();
  }

 private:
  struct fiber_clock final : seams::clock {
    explicit fiber_clock(simulated_subject &subject) : owner{subject} {}
    uint64_t now_ns() noexcept override {
      return owner.world_.now_ns();
    }
    void sleep_ns(uint64_t duration_ns) noexcept override {
      owner.later(duration_ns, [&self = owner, i = owner.running_] { self.resume(i); });
      owner.fibers_->yield();
    }
    simulated_subject &owner;
  };

  sim::program_switch programs() {
    return {.running = [this] { return running_; },
            .yield = [this] { fibers_->yield(); },
            .resume = [this](size_t index) { resume(index); },
            .schedule_after =
                [this](uint64_t delay_ns, std::function<void()> action) {
                  later(delay_ns, std::move(action));
                }};
  }

  // Outside of the world's lock, which a fiber that goes on would keep.
  void later(uint64_t delay_ns, std::function<void()> action) {
    world_.schedule(world_.now_ns() + delay_ns,
                    [this, action = std::move(action)] { due_.push_back(action); });
  }
  void resume(size_t index) {
    running_ = index;
    fibers_->resume(index);
  }

  sim::world world_{1};
  fiber_clock clock_{*this};
  std::optional<test::fiber_set> fibers_;
  std::vector<std::function<void()>> due_;
  size_t running_ = 0;
  sim::alarm alarm_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(simulated, alarm_contract, simulated_subject);

uint64_t lost_wakeups(bool loses_wakeups) {
  simulated_subject subject{loses_wakeups};
  seams::shared_alarm shared;
  bool is_ready = false;
  subject.run({[&] { shared.sleep([&] { return is_ready; }, 1'000'000, {}, subject.alarm()); },
               [&] {
                 is_ready = true;
                 shared.wake({}, subject.alarm());
               }});
  return subject.alarm().lost_wakeup_count();
}

TEST(simulated_alarm, counts_the_wake_ups_that_it_loses) {
  EXPECT_EQ(lost_wakeups(true), 1u);
  EXPECT_EQ(lost_wakeups(false), 0u);
}

}  // namespace
}  // namespace tanada::contract
