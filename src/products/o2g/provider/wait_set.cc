// Waiting for, and waking threads that wait for, completion queues, counters and event queues.
#include "products/o2g/provider/wait_set.hpp"

#include <algorithm>
#include <ctime>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g::provider {

namespace {

// With several engines, a waiter sleeps in the first one in short slices and polls the others in
// between.
constexpr uint64_t slice_ns = 1'000'000;
// Bound on a sleep with one engine: a wake-up can reach another thread that is just leaving the
// engine.
constexpr uint64_t recheck_ns = 100'000'000;
static_assert(slice_ns < recheck_ns && slice_ns < 1'000'000'000);  // a tv_nsec

void sleep_slice() {
  timespec const step{0, long(slice_ns)};
  nanosleep(&step, nullptr);
}

struct wait_condition {
  const std::atomic<uint32_t> &change_count;
  bool (*is_ready)(void *);
  void *argument;
};

bool should_return(void *argument) {
  auto const &condition = *static_cast<wait_condition *>(argument);
  return condition.change_count.load() != 0 || condition.is_ready(condition.argument);
}

}  // namespace

status wait_set::open_descriptor() {
  auto opened = backends::joint_descriptor::create();
  if (!opened.ok())
    return opened.error();
  joint_ = std::move(opened).value();
  return status::ok;
}

class wait_set::change_scope {
 public:
  explicit change_scope(wait_set &target) noexcept : target_{target} {
    target_.change_count_.fetch_add(1);
    target_.notify();
  }
  ~change_scope() {
    while (target_.notifier_count_.load() != 0)
      std::this_thread::yield();  // a notifier needs only as long as one wake-up
    uint32_t const count_before = target_.change_count_.fetch_sub(1);
    TND_ASSERT(count_before != 0);
  }
  change_scope(const change_scope &) = delete;
  change_scope &operator=(const change_scope &) = delete;

 private:
  wait_set &target_;
};

void wait_set::update_first() noexcept {
  first_ = engines_.empty() ? nullptr : engines_.front();
}

void wait_set::attach(engine *member) {
  TND_ASSERT(member != nullptr);
  change_scope const change{*this};
  lock_guard const lock{mutex_};
  if (std::ranges::find(engines_, member) == engines_.end()) {
    engines_.reserve(engines_.size() + 1);
    if (joint_ != nullptr)
      joint_->add(member->descriptor());
    engines_.push_back(member);
  }
  update_first();
}

void wait_set::detach(engine *member) noexcept {
  change_scope const change{*this};
  lock_guard const lock{mutex_};
  if (std::erase(engines_, member) != 0 && joint_ != nullptr)
    joint_->remove(member->descriptor());
  update_first();
}

void wait_set::notify() noexcept {
  raise();
  if (waiter_count_.load() == 0)
    return;
  shared_lock const lock{mutex_};
  for (engine *const member : engines_)
    member->wake();
}

bool wait_set::wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) {
  auto &clock = seams::monotonic_clock();
  wait_condition condition{change_count_, is_ready, argument};
  for (;;) {
    bool const is_free = change_count_.load() == 0;
    if (is_free) {
      shared_lock const lock{mutex_};
      size_t handled_count = 0;
      for (engine *const member : engines_)
        handled_count += member->poll(false);
      if (is_ready(argument))
        return true;
      uint64_t const now_ns = clock.now_ns();
      if (now_ns >= deadline_ns)
        return false;
      if (handled_count != 0)
        continue;
      if (!engines_.empty()) {
        waiter_count_.fetch_add(1);
        uint64_t const sleep_end_ns =
            std::min(deadline_ns, now_ns + (engines_.size() == 1 ? recheck_ns : slice_ns));
        (void)engines_.front()->wait(sleep_end_ns, should_return, &condition);
        waiter_count_.fetch_sub(1);
        continue;
      }
    }
    sleep_slice();  // no engine is attached yet, or the set of engines is changing
  }
}

void wait_set::lower() noexcept {
  if (joint_ == nullptr)
    return;
  joint_->lower();
  // A thread that raised it in between had changed the state before. The caller of prepare_sleep()
  // checks the state afterwards.
  is_raised_.store(false);
}

void wait_set::prepare_sleep() {
  lower();
  progress(false);
  shared_lock const lock{mutex_};
  for (engine *const member : engines_)
    (void)member->wait(0, [](void *) { return false; }, nullptr);  // consumes pending wake-ups
}

}  // namespace tanada::o2g::provider
