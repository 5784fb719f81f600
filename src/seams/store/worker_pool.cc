// The threads behind blocking_store.
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

namespace tanada::seams {
namespace {

store_completion perform(blocking_engine &engine, const store_op &op) {
  store_completion done;
  done.op_id = op.op_id;
  switch (op.kind) {
    case store_op_kind::open:
      done.code = engine.open(op.url, op.open_flags, done.file, done.stat);
      break;
    case store_op_kind::close:
      done.code = engine.close(op.file, done.stat);
      break;
    case store_op_kind::read:
      done.code = engine.read(op.file, op.offset, op.buffers, done.size);
      break;
    case store_op_kind::write:
      done.code = engine.write(op.file, op.offset, op.buffers, done.size);
      break;
    case store_op_kind::stat:
      done.code = engine.stat(op.file, done.stat);
      break;
    case store_op_kind::truncate:
      done.code = engine.truncate(op.file, op.size);
      break;
    case store_op_kind::sync:
      done.code = engine.sync(op.file);
      break;
    case store_op_kind::unlink:
      done.code = engine.unlink(op.url);
      break;
    case store_op_kind::list:
      done.code = engine.list(op.url, done.names);
      break;
    case store_op_kind::sync_names:
      done.code = engine.sync_names(op.url);
      break;
  }
  return done;
}

}  // namespace

void completion_list::push(store_completion completion) {
  lock_guard lock{mutex_};
  done_.push_back(std::move(completion));
  count_.store(done_.size(), std::memory_order_release);
  if (listener_)
    listener_();
}

void completion_list::set_listener(std::function<void()> listener) {
  lock_guard lock{mutex_};
  listener_ = std::move(listener);
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

uint64_t worker_pool::queue_key(const store_op &op) {
  bool const by_name = op.kind == store_op_kind::open || op.kind == store_op_kind::unlink ||
                       op.kind == store_op_kind::list || op.kind == store_op_kind::sync_names;
  return by_name ? std::hash<std::string>{}(op.url) | uint64_t{1} << 63
                 : op.file & ~(uint64_t{1} << 63);
}

void worker_pool::mark_ready(uint64_t key, file_queue &queue) {
  TND_ASSERT(mutex_.is_held());
  if (queue.is_ready || queue.tasks.empty() || queue.busy_count >= limits_.workers_per_file)
    return;
  queue.is_ready = true;
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
  thread_count_++;
  return true;
}

status worker_pool::submit(store_op op, std::shared_ptr<completion_list> target) {
  unique_lock lock{mutex_};
  if (ready_.size() >= idle_count_ && thread_count_ < limits_.worker_count && !start_thread() &&
      thread_count_ == 0) {
    return fail(status::again, "{}: no thread can be started", scheme());
  }
  uint64_t const key = queue_key(op);
  auto &queue = queues_[key];
  queue.tasks.push_back({std::move(op), std::move(target)});
  mark_ready(key, queue);
  lock.unlock();
  wake_.notify_one();
  return status::ok;
}

void worker_pool::work() {
  unique_lock lock{mutex_};
  for (;;) {
    idle_count_++;
    wake_.wait(lock, [&] {
      mutex_.assert_held();
      return is_stopping_ || !ready_.empty();
    });
    TND_ASSERT(idle_count_ != 0);
    idle_count_--;
    if (is_stopping_)
      break;
    run_one(lock);
  }
  TND_ASSERT(thread_count_ != 0);
  thread_count_--;
  finished_.notify_all();
}

void worker_pool::run_one(unique_lock<mutex> &lock) {
  TND_ASSERT(mutex_.is_held() && !ready_.empty());
  uint64_t const key = ready_.front();
  ready_.pop_front();
  auto &queue = queues_.at(key);
  TND_ASSERT(queue.is_ready);
  queue.is_ready = false;
  if (queue.tasks.empty()) {  // they timed out
    if (queue.busy_count == 0)
      queues_.erase(key);
    return;
  }
  task next = std::move(queue.tasks.front());
  queue.tasks.pop_front();
  queue.busy_count++;
  mark_ready(key, queue);
  next.target->running_count_++;
  last_start_ns_ = monotonic_clock().now_ns();
  lock.unlock();
  next.target->push(perform(*engine_, next.op));
  lock.lock();
  TND_ASSERT(next.target->running_count_ != 0);
  next.target->running_count_--;
  auto const it = queues_.find(key);
  TND_ASSERT(it != queues_.end() && it->second.busy_count != 0);
  it->second.busy_count--;
  mark_ready(key, it->second);
  if (it->second.busy_count == 0 && it->second.tasks.empty() && !it->second.is_ready)
    queues_.erase(it);
  finished_.notify_all();
}

template <class Predicate>
std::deque<worker_pool::task> worker_pool::take_queued(Predicate predicate) {
  std::deque<task> removed;
  for (auto &[key, queue] : queues_) {
    if (std::none_of(queue.tasks.begin(), queue.tasks.end(), predicate))
      continue;
    std::deque<task> remaining;
    for (auto &entry : queue.tasks)
      (predicate(entry) ? removed : remaining).push_back(std::move(entry));
    queue.tasks.swap(remaining);
  }
  return removed;
}

void worker_pool::expire(completion_list &target, uint64_t now_ns) {
  unique_lock lock{mutex_};
  bool const stuck =
      !ready_.empty() && idle_count_ == 0 && now_ns > last_start_ns_ + limits_.stall_ns;
  if (stuck && thread_count_ < limits_.worker_count_max)
    start_thread();
  auto const late = take_queued([&](const task &entry) {
    return entry.target.get() == &target && entry.op.deadline_ns <= now_ns;
  });
  lock.unlock();
  for (const auto &entry : late) {
    store_completion completion;
    completion.op_id = entry.op.op_id;
    completion.code = status::timed_out;
    target.push(std::move(completion));
  }
}

bool worker_pool::drain(completion_list &target) {
  unique_lock lock{mutex_};
  auto const dropped =
      take_queued([&](const task &entry) { return entry.target.get() == &target; });
  return finished_.wait_for(lock, std::chrono::nanoseconds{limits_.abandon_ns}, [&] {
    return target.running_count_ == 0;
  });
}

bool worker_pool::stop() {
  unique_lock lock{mutex_};
  is_stopping_ = true;
  auto const dropped = take_queued([](const task &) { return true; });
  wake_.notify_all();
  return finished_.wait_for(lock, std::chrono::nanoseconds{limits_.abandon_ns}, [&] {
    mutex_.assert_held();
    return thread_count_ == 0;
  });
}

}  // namespace tanada::seams
