#include "seams/store/worker_pool.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::port {
namespace {

store_completion perform(blocking_engine &engine, const store_op &op) {
  store_completion done;
  done.op_id = op.op_id;
  switch (op.kind) {
    case store_op_kind::open:
      done.code = engine.open(op.url, op.open_flags, done.file, done.stat);
      break;
    case store_op_kind::close: done.code = engine.close(op.file, done.stat); break;
    case store_op_kind::read:
      done.code = engine.read(op.file, op.offset, op.buffers, done.size);
      break;
    case store_op_kind::write:
      done.code = engine.write(op.file, op.offset, op.buffers, done.size);
      break;
    case store_op_kind::stat: done.code = engine.stat(op.file, done.stat); break;
    case store_op_kind::truncate: done.code = engine.truncate(op.file, op.size); break;
    case store_op_kind::sync: done.code = engine.sync(op.file); break;
    case store_op_kind::unlink: done.code = engine.unlink(op.url); break;
    case store_op_kind::list: done.code = engine.list(op.url, done.names); break;
    case store_op_kind::sync_names: done.code = engine.sync_names(op.url); break;
  }
  return done;
}

}  // namespace

void completion_list::push(store_completion completion) {
  lock_guard lock{mutex_};
  done_.push_back(std::move(completion));
  count_.store(done_.size(), std::memory_order_release);
}

size_t completion_list::take(std::span<store_completion> completions) {
  if (count_.load(std::memory_order_acquire) == 0)
    return 0;
  lock_guard lock{mutex_};
  size_t count = 0;
  for (; count < completions.size() && !done_.empty(); count++) {
    completions[count] = std::move(done_.front());
    done_.pop_front();
  }
  count_.store(done_.size(), std::memory_order_release);
  return count;
}

uint64_t worker_pool::lane_of(const store_op &op) {
  bool const by_name = op.kind == store_op_kind::open || op.kind == store_op_kind::unlink ||
                       op.kind == store_op_kind::list || op.kind == store_op_kind::sync_names;
  return by_name ? std::hash<std::string>{}(op.url) | uint64_t{1} << 63
                 : op.file & ~(uint64_t{1} << 63);
}

void worker_pool::queue_lane(uint64_t key, lane &which) {
  if (which.queued || which.tasks.empty() || which.busy >= limits_.workers_per_file)
    return;
  which.queued = true;
  ready_.push_back(key);
}

bool worker_pool::start_thread() {
  signals_blocked const blocked;
  try {
    std::thread{[self = shared_from_this()] {
      self->work();
    }}.detach();
  } catch (const std::system_error &) {
    return false;
  }
  live_++;
  return true;
}

status worker_pool::submit(store_op op, std::shared_ptr<completion_list> target) {
  unique_lock lock{mutex_};
  if (ready_.size() >= idle_ && live_ < limits_.worker_count && !start_thread() && live_ == 0) {
    return fail(status::again, "%s: no thread can be started", scheme());
  }
  uint64_t const key = lane_of(op);
  auto &which = lanes_[key];
  which.tasks.push_back({std::move(op), std::move(target)});
  queue_lane(key, which);
  lock.unlock();
  wake_.notify_one();
  return status::ok;
}

void worker_pool::work() {
  unique_lock lock{mutex_};
  for (;;) {
    idle_++;
    wake_.wait(lock, [&] { return stopping_ || !ready_.empty(); });
    idle_--;
    if (stopping_)
      break;
    run_one(lock);
  }
  live_--;
  calm_.notify_all();
}

void worker_pool::run_one(unique_lock<mutex> &lock) {
  uint64_t const key = ready_.front();
  ready_.pop_front();
  auto &which = lanes_.at(key);
  which.queued = false;
  if (which.tasks.empty()) {  // they timed out
    if (which.busy == 0)
      lanes_.erase(key);
    return;
  }
  task next = std::move(which.tasks.front());
  which.tasks.pop_front();
  which.busy++;
  queue_lane(key, which);
  next.target->running_++;
  began_ns_ = monotonic_clock().now_ns();
  lock.unlock();
  auto completion = perform(*engine_, next.op);
  lock.lock();
  next.target->push(std::move(completion));
  next.target->running_--;
  auto const at = lanes_.find(key);
  at->second.busy--;
  queue_lane(key, at->second);
  if (at->second.busy == 0 && at->second.tasks.empty() && !at->second.queued)
    lanes_.erase(at);
  calm_.notify_all();
}

template <class Wanted>
std::deque<worker_pool::task> worker_pool::take_waiting(Wanted wanted) {
  std::deque<task> taken;
  for (auto &[key, which] : lanes_) {
    if (std::none_of(which.tasks.begin(), which.tasks.end(), wanted))
      continue;
    std::deque<task> kept;
    for (auto &one : which.tasks)
      (wanted(one) ? taken : kept).push_back(std::move(one));
    which.tasks.swap(kept);
  }
  return taken;
}

void worker_pool::tend(completion_list &target, uint64_t now_ns) {
  unique_lock lock{mutex_};
  bool const stuck = !ready_.empty() && idle_ == 0 && now_ns > began_ns_ + limits_.stall_ns;
  if (stuck && live_ < limits_.worker_count_max)
    start_thread();
  auto const late = take_waiting(
      [&](const task &one) { return one.target.get() == &target && one.op.deadline_ns <= now_ns; });
  lock.unlock();
  for (const auto &one : late) {
    store_completion completion;
    completion.op_id = one.op.op_id;
    completion.code = status::timed_out;
    target.push(std::move(completion));
  }
}

bool worker_pool::drain(completion_list &target) {
  unique_lock lock{mutex_};
  auto const dropped = take_waiting([&](const task &one) { return one.target.get() == &target; });
  return calm_.wait_for(lock, std::chrono::nanoseconds{limits_.abandon_ns},
                        [&] { return target.running_ == 0; });
}

bool worker_pool::stop() {
  unique_lock lock{mutex_};
  stopping_ = true;
  auto const dropped = take_waiting([](const task &) { return true; });
  wake_.notify_all();
  return calm_.wait_for(lock, std::chrono::nanoseconds{limits_.abandon_ns},
                        [&] { return live_ == 0; });
}

}  // namespace tanada::port
