// The receiver behind tanada/o2g.h: queues, waiting, and the threads that receive. sockets.cc
// handles the bytes.
#include "products/o2g/calls/receiver.hpp"

#include <chrono>
#include <new>
#include <system_error>

#include "backends/sockets/shared_socket.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/thread.hpp"

namespace tanada::o2g::calls {

namespace {

constexpr int spin_count_max = 1000;  // about 20 us
constexpr int yield_count_max = 1000;

unexpected *unexpected_of_link(match_link *link) {
  return reinterpret_cast<unexpected *>(reinterpret_cast<std::byte *>(link) -
                                        offsetof(unexpected, all_link));
}

unexpected &unexpected_of_node(arrived_entry &node) {
  return reinterpret_cast<unexpected &>(node);
}

}  // namespace

unexpected &unexpected_of(queue_entry &entry) {
  return *reinterpret_cast<unexpected *>(uintptr_t(entry.reserved[0]));
}

receiver::receiver(uint32_t socket_count_max, std::unique_ptr<seams::stream_set> set)
    : socket_count_max_{socket_count_max}, set_{std::move(set)} {
  connections_.reserve(socket_count_max);
  o2g_match_link_init(&unexpected_);
  set_->attach(*this);
}

result<std::unique_ptr<receiver>> receiver::create(uint32_t socket_count_max) {
  seams::stream_set_options options;
  options.connection_count_max = socket_count_max;
  // epoll is the implementation that can pause a connection
  auto set = seams::epoll_stream_set_create(options);
  if (!set.ok())
    return set.error();
  return std::unique_ptr<receiver>{new receiver{socket_count_max, std::move(set).value()}};
}

receiver::~receiver() {
  {
    lock_guard lock{mutex_};
    is_stopping_ = true;
    set_->wake();
    changed_.notify_all();
  }
  for (std::thread &thread : threads_)
    thread.join();
  lock_guard lock{mutex_};
  queues_.find_posted_if([this](posted_entry &node) {
    mutex_.assert_held();
    queues_.remove(node);
    set_flags(*reinterpret_cast<expected &>(node).entry, 0, O2G_QUEUED);
    return false;
  });
}

status receiver::add_socket(int socket, int rank) {
  if (rank < 0)
    return fail(status::invalid, "invalid rank {}", rank);
  lock_guard lock{mutex_};
  if (by_rank_.contains(rank))
    return fail(status::exists, "rank {} already has a socket", rank);
  if (connections_.size() == socket_count_max_)
    return fail(status::too_many_files, "cannot register more than {} sockets", socket_count_max_);
  auto const id = backends::adopt_shared(*set_, socket, connections_.size());
  if (!id.ok())
    return id.error();
  by_rank_.emplace(rank, uint32_t(connections_.size()));
  connections_.push_back({.id = result<seams::stream_id>{id}.value(), .rank = rank});
  open_count_++;
  return status::ok;
}

status receiver::set_dump_area(std::span<std::byte> memory) {
  lock_guard lock{mutex_};
  if (unexpected_buffer_ != nullptr)
    return fail(status::busy, "a dump area is already set");
  auto created = seams::arena::create(memory);
  if (!created.ok())
    return created.error();
  unexpected_buffer_ = std::move(created).value();
  uint64_t const count_before = event_count_;
  unblock_fitting();
  notify_waiters(count_before);
  return status::ok;
}

status receiver::start_threads(uint32_t count) {
  lock_guard lock{mutex_};
  if (threads_.size() + count > O2G_THREAD_COUNT_MAX)
    return fail(status::invalid, "cannot start more than {} threads", O2G_THREAD_COUNT_MAX);
  for (uint32_t i = 0; i < count; i++) {
    try {
      threads_.emplace_back([this] {
        unique_lock receive_lock{mutex_};
        while (!is_stopping_) {
          receive_step(receive_lock, TND_NO_DEADLINE);
          yield_lock(receive_lock);
        }
      });
    } catch (const std::system_error &error) {
      return fail(status::no_memory, "cannot start a thread: {}", error.what());
    }
  }
  return status::ok;
}

status receiver::put(queue_entry &entry) {
  TND_TRY(check_expected(entry, load_flags(entry)));
  auto const lock = lock_for_call();
  mutex_.assert_held();
  match_pattern const pattern = pattern_of(entry);
  // A matching message has arrived that the caller cannot have seen.
  if (queues_.is_raced(pattern, entry.sequence)) {
    race_count_++;
    return status::again;
  }
  auto *const posted = new (entry.reserved) expected;
  posted->node.pattern = pattern;
  posted->entry = &entry;
  entry.status = TND_OK;
  set_flags(entry, 0, ~uint32_t{0});
  uint64_t const count_before = event_count_;
  if (!unblock_for(*posted)) {
    connection const *const sender =
        entry.source == O2G_ANY_SOURCE ? nullptr : find_connection(entry.source);
    if (sender != nullptr && sender->phase == stage::ended)
      return fail(sender->code, "the connection to rank {} has ended", sender->rank);
    set_flags(entry, O2G_QUEUED);
    queues_.add(posted->node);
  }
  progress_if_unthreaded();
  notify_waiters(count_before);
  return status::ok;
}

status receiver::cancel(queue_entry &entry) {
  auto const lock = lock_for_call();
  mutex_.assert_held();
  uint32_t const flags = load_flags(entry);
  if ((flags & O2G_UNEXPECTED) == 0 && (flags & (O2G_MATCHED | O2G_FAILED)) != 0) {
    race_count_++;
    return status::again;
  }
  if ((flags & O2G_QUEUED) == 0)
    return fail(status::invalid, "the entry is not in the queue");
  queues_.remove(reinterpret_cast<expected *>(entry.reserved)->node);
  set_flags(entry, 0, O2G_QUEUED);
  return status::ok;
}

status receiver::free(queue_entry &entry) {
  auto const lock = lock_for_call();
  mutex_.assert_held();
  uint32_t const flags = load_flags(entry);
  if ((flags & O2G_UNEXPECTED) == 0)
    return fail(status::invalid, "the entry is not in the dump area");
  if (!is_done(flags))
    return fail(status::busy, "the message is still being received");
  unexpected &message = unexpected_of(entry);
  if (message.node.is_queued)
    queues_.remove(message.node);
  o2g_match_unlink(&message.all_link);
  unexpected_count_--;
  unexpected_buffer_->release(&message);
  uint64_t const count_before = event_count_;
  unblock_fitting();
  notify_waiters(count_before);
  return status::ok;
}

status receiver::find(queue_entry &request, queue_entry *&match) {
  TND_TRY(check_pattern(request));
  auto const lock = lock_for_call();
  mutex_.assert_held();
  uint64_t const count_before = event_count_;
  progress_if_unthreaded();
  notify_waiters(count_before);
  arrived_entry *const node = queues_.find_arrived(pattern_of(request));
  if (node == nullptr) {
    request.sequence = sequence();
    return status::no_entry;
  }
  queues_.remove(*node);
  match = &unexpected_of_node(*node).entry;
  set_flags(*match, O2G_CLAIMED);
  return status::ok;
}

queue_entry *receiver::next(const queue_entry *after) {
  auto const lock = lock_for_call();
  mutex_.assert_held();
  match_link *const link = after == nullptr
                               ? unexpected_.next
                               : unexpected_of(*const_cast<queue_entry *>(after)).all_link.next;
  return link == &unexpected_ ? nullptr : &unexpected_of_link(link)->entry;
}

status receiver::poll(uint64_t *event_count, uint64_t timeout_ns) {
  uint64_t const deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
  unique_lock lock{mutex_};
  if (event_count == nullptr)
    event_count = &polled_event_count_;
  for (bool is_first = true;; is_first = false) {
    if (event_count_ != *event_count) {
      *event_count = event_count_;
      return status::ok;
    }
    if (open_count_ == 0)
      return fail(status::peer_lost, "every connection has ended");
    if (!is_first && seams::monotonic_clock().now_ns() >= deadline_ns)
      return status::timed_out;
    receive_step(lock, deadline_ns);
    yield_lock(lock);
  }
}

status receiver::rank_status(int rank) {
  auto const lock = lock_for_call();
  mutex_.assert_held();
  connection const *const sender = find_connection(rank);
  if (sender == nullptr)
    return fail(status::no_entry, "no socket is registered for rank {}", rank);
  return sender->phase == stage::ended ? sender->code : status::ok;
}

void receiver::count(o2g_statistics &statistics) {
  auto const lock = lock_for_call();
  mutex_.assert_held();
  statistics.socket_count = open_count_;
  statistics.blocked_count = uint32_t(blocked_.size());
  statistics.thread_count = uint32_t(threads_.size());
  statistics.expected_count = queues_.posted_count();
  statistics.unexpected_count = unexpected_count_;
  statistics.dump_free_size = unexpected_buffer_ == nullptr ? 0 : unexpected_buffer_->free_size();
  statistics.received_count = received_count_;
  statistics.race_count = race_count_;
}

receiver::connection *receiver::find_connection(int32_t rank) {
  TND_ASSERT(mutex_.is_held());
  auto const it = by_rank_.find(rank);
  return it == by_rank_.end() ? nullptr : &connections_[it->second];
}

void receiver::complete_entry(queue_entry &entry, uint32_t flags) {
  TND_ASSERT(mutex_.is_held());
  event_count_++;
  set_flags(entry, flags);  // the caller may free its entry as soon as the flags are set
}

size_t receiver::progress_if_unthreaded() {
  TND_ASSERT(mutex_.is_held());
  return threads_.empty() ? set_->progress() : 0;
}

// Wakes waiting threads if events have occurred since `event_count_before`.
void receiver::notify_waiters(uint64_t event_count_before) {
  TND_ASSERT(mutex_.is_held());
  if (event_count_ == event_count_before)
    return;
  changed_.notify_all();
  if (has_leader_)
    set_->wake();
}

// Locks for a call that does not wait for messages. A receiving thread holds the lock for at most
// one chunk of bytes, because should_stop() stops it.
unique_lock<mutex> receiver::lock_for_call() {
  unique_lock lock{mutex_, std::try_to_lock};
  if (lock.owns_lock())
    return lock;
  lock_waiter_count_.fetch_add(1);
  for (int i = 0; i < spin_count_max && !lock.owns_lock(); i++) {
    seams::spin_pause();
    (void)lock.try_lock();
  }
  for (int i = 0; i < yield_count_max && !lock.owns_lock(); i++) {
    std::this_thread::yield();  // lets a preempted lock holder run
    (void)lock.try_lock();
  }
  if (!lock.owns_lock())
    lock.lock();
  lock_waiter_count_.fetch_sub(1);
  return lock;
}

// Lets waiting callers take the lock, which a continuously receiving thread would otherwise take
// again first.
void receiver::yield_lock(unique_lock<mutex> &lock) {
  TND_ASSERT(mutex_.is_held());
  if (lock_waiter_count_.load() == 0)
    return;
  lock.unlock();
  for (int i = 0; i < yield_count_max && lock_waiter_count_.load() != 0; i++)
    std::this_thread::yield();
  lock.lock();
}

// Handle what has arrived. If nothing has, wait once for it, or for the thread that is waiting for
// it.
void receiver::receive_step(unique_lock<mutex> &lock, uint64_t deadline_ns) {
  TND_ASSERT(mutex_.is_held());
  uint64_t const count_before = event_count_;
  if (has_leader_) {
    if (deadline_ns == TND_NO_DEADLINE)
      return changed_.wait(lock);
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (now_ns < deadline_ns)
      changed_.wait_for(lock, std::chrono::nanoseconds{deadline_ns - now_ns});
    return;
  }
  if (set_->progress() == 0) {
    has_leader_ = true;
    lock.unlock();
    (void)set_->wait(deadline_ns);
    lock.lock();
    has_leader_ = false;
    if (!is_stopping_)
      set_->progress();
    changed_.notify_all();  // another thread must take over the waiting
  } else if (event_count_ != count_before) {
    changed_.notify_all();
  }
}

}  // namespace tanada::o2g::calls
