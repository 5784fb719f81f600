// onesided/job/turns.hpp: whose turn it is at an endpoint that several threads use, and how whoever
// waits there goes on without news: looking at once, then letting others run, then asleep in the
// endpoint. For lane_state.hpp and staging_state.hpp alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"

namespace tanada::pgas {

// How long somebody waits already.
struct pacing {
  uint32_t round = 0;  // since something happened
  uint32_t count = 0;
  uint64_t yields_since_ns = 0, sleep_ns = 0;  // 0: it does not yet

  void news() noexcept {
    *this = {.count = count};
  }
};

// Rules of locking: the mutex protects what its owner keeps. The endpoint is used by who holds the
// mutex while nobody is asleep in the endpoint; the sleeper has let go of the mutex, so whoever
// wants the endpoint wakes it up. The mutex is never held while a peer is waited for.
class turns {
 public:
  using held = unique_lock<mutex>;

  static constexpr uint32_t clock_rounds = 64;  // of a waiter, between two looks at the clock
  // Of a sleep. What this PE owes others is looked after in between; by and by the thread that
  // answers takes over.
  static constexpr uint64_t sleep_ns_first = 50'000, sleep_ns_last = 1'000'000;

  // Both outlive it. `is_crowded`: threads queue for processors, and the other end may need this
  // one.
  turns(port::fabric_endpoint &endpoint, port::clock &time, bool is_crowded)
      : endpoint_{endpoint}, time_{time}, is_crowded_{is_crowded} {}

  held enter();      // the mutex, with the endpoint
  held try_enter();  // owns nothing where somebody else is at it
  held lock() {
    return held{mutex_};
  }  // the endpoint may be somebody else's
  void claim(held &lock) {  // the endpoint, too
    if (is_asleep_) [[unlikely]]
      wake_sleeper(lock);
  }

  bool is_asleep() const noexcept {
    return is_asleep_;
  }  // under the mutex
  bool is_wanted() const noexcept {
    return wanted_.load(std::memory_order_relaxed) != 0;
  }

  // One step of a wait without news: lets go of the mutex, for attend() (null: nothing) and as long
  // as it is worth by now. The endpoint may be somebody else's then.
  void pause(held &lock, pacing &pace, const std::function<void()> &attend);

  // What follows, with the endpoint: progress() says whether there are news; if there are none, and
  // it is time, sleep.
  template <class Progress>
  void look_or_sleep(held &lock, pacing &pace, Progress &&progress) {
    if (progress() != 0)
      return pace.news();
    if (pace.sleep_ns == 0 || is_wanted())
      return;
    (void)sleep(lock, [&] { return endpoint_.wait(time_.now_ns() + pace.sleep_ns); });
    pace.sleep_ns = std::min(pace.sleep_ns + pace.sleep_ns / 2, sleep_ns_last);
    (void)progress();
  }

  // Lets go of the mutex for wait(), which is a wait of the endpoint's. The endpoint is the
  // caller's then.
  template <class Wait>
  status sleep(held &lock, Wait &&wait) {
    is_asleep_ = true;
    lock.unlock();
    status const code = wait();
    lock.lock();
    is_asleep_ = false;
    changed_.notify_all();
    return code;
  }

  // Until the sleeper is awake, or somebody tells, or so much time is over.
  void wait_for_others(held &lock, uint64_t duration_ns) {
    changed_.wait_for(lock, std::chrono::nanoseconds(duration_ns));
  }
  void tell_others() noexcept {
    changed_.notify_all();
  }

  // Now and then it is worth a look at what else may end a wait, the clock first.
  static bool is_time_to_look(const pacing &pace) noexcept {
    return pace.sleep_ns != 0 || pace.count % clock_rounds == clock_rounds - 1;
  }
  bool is_late(const pacing &pace, uint64_t deadline_ns) const {
    return is_time_to_look(pace) && time_.now_ns() >= deadline_ns;
  }

 private:
  void wake_sleeper(held &lock);
  bool is_tired(pacing &pace) const;

  port::fabric_endpoint &endpoint_;
  port::clock &time_;
  bool const is_crowded_;
  mutex mutex_;
  condition_variable changed_;  // the sleeper is awake, and may have found something
  bool is_asleep_ = false;
  std::atomic<uint32_t> wanted_{0};  // threads that want the mutex or the endpoint
};

}  // namespace tanada::pgas
