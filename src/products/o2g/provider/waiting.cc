#include "products/o2g/provider/waiting.hpp"

#include <algorithm>
#include <ctime>
#include <thread>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

namespace {

// With several engines the first is waited for in slices, the others are looked at in between.
constexpr uint64_t slice_ns = 1'000'000;
constexpr uint64_t recheck_ns =
    100'000'000;  // a wake-up may go to somebody who leaves the engine as we enter it

void sleep_a_slice() {
  timespec const step{0, long(slice_ns)};
  nanosleep(&step, nullptr);
}

struct question {
  const std::atomic<uint32_t> &changing;
  bool (*is_ready)(void *);
  void *argument;
};

bool must_return(void *argument) {
  auto const &asked = *static_cast<question *>(argument);
  return asked.changing.load() != 0 || asked.is_ready(asked.argument);
}

}  // namespace

status waiting_room::open_descriptor() {
  auto made = port::joint_descriptor::create();
  if (!made.ok())
    return made.error();
  joint_ = std::move(made).value();
  return status::ok;
}

template <class Change>
void waiting_room::change(Change &&how) {
  changing_.fetch_add(1);
  tell();
  {
    lock_guard const lock{mutex_};
    how();
    first_ = engines_.empty() ? nullptr : engines_.front();
  }
  while (telling_count_.load() != 0)
    std::this_thread::yield();  // as long as a wake-up takes
  changing_.fetch_sub(1);
}

void waiting_room::enter(engine *which) {
  change([&] {
    if (std::ranges::find(engines_, which) != engines_.end())
      return;
    engines_.push_back(which);
    if (joint_ != nullptr)
      joint_->add(which->descriptor());
  });
}

void waiting_room::leave(engine *which) noexcept {
  change([&] {
    if (std::erase(engines_, which) != 0 && joint_ != nullptr)
      joint_->remove(which->descriptor());
  });
}

void waiting_room::tell() noexcept {
  raise();
  if (waiter_count_.load() == 0)
    return;
  shared_lock const lock{mutex_};
  for (engine *const each : engines_)
    each->wake();
}

bool waiting_room::wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) {
  auto &clock = port::monotonic_clock();
  question asked{changing_, is_ready, argument};
  for (;;) {
    bool const is_free = changing_.load() == 0;
    if (is_free) {
      shared_lock const lock{mutex_};
      size_t found = 0;
      for (engine *const each : engines_)
        found += each->poll(false);
      if (is_ready(argument))
        return true;
      uint64_t const now_ns = clock.now_ns();
      if (now_ns >= deadline_ns)
        return false;
      if (found != 0)
        continue;
      if (!engines_.empty()) {
        waiter_count_.fetch_add(1);
        uint64_t const until_ns =
            std::min(deadline_ns, now_ns + (engines_.size() == 1 ? recheck_ns : slice_ns));
        (void)engines_.front()->wait(until_ns, must_return, &asked);
        waiter_count_.fetch_sub(1);
        continue;
      }
    }
    sleep_a_slice();  // nobody brings anything yet, or somebody is about to come or to go
  }
}

void waiting_room::lower() noexcept {
  if (joint_ == nullptr)
    return;
  joint_->lower();
  is_raised_.store(false);  // whoever raised it in between did so after the change: settle's caller
                            // looks for that
}

void waiting_room::settle() {
  lower();
  drive(false);
  shared_lock const lock{mutex_};
  for (engine *const each : engines_)
    (void)each->wait(0, [](void *) { return false; }, nullptr);  // takes wake-ups away
}

}  // namespace tanada::o2g::provider
