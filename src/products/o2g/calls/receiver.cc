#include "products/o2g/calls/receiver.hpp"

#include <chrono>
#include <new>
#include <system_error>

#include "backends/sockets/shared_socket.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/thread.hpp"

namespace tanada::o2g::seed {

namespace {

constexpr int spin_count_max = 1000;  // some 20 us
constexpr int yield_count_max = 1000;

unexpected *of_all(match_link *link) {
  return reinterpret_cast<unexpected *>(reinterpret_cast<std::byte *>(link) -
                                        offsetof(unexpected, all));
}

unexpected &of_node(arrived_entry &node) {
  return reinterpret_cast<unexpected &>(node);
}

bool has_sound_pattern(const queue_entry &entry) {
  return entry.struct_size >= sizeof(queue_entry) && entry.source >= O2G_ANY_SOURCE &&
         entry.tag >= O2G_ANY_TAG;
}

}  // namespace

unexpected &unexpected_of(queue_entry &entry) {
  return *reinterpret_cast<unexpected *>(uintptr_t(entry.reserved[0]));
}

receiver::receiver(uint32_t socket_count_max, std::unique_ptr<port::stream_set> set)
    : socket_count_max_{socket_count_max}, set_{std::move(set)} {
  connections_.reserve(socket_count_max);
  set_->attach(*this);
}

result<std::unique_ptr<receiver>> receiver::create(uint32_t socket_count_max) {
  port::stream_set_options options;
  options.connection_count_max = socket_count_max;
  auto set = port::epoll_stream_set_create(options);  // the one that can pause
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
  for (std::thread &each : threads_)
    each.join();
  queues_.find_posted_if([this](posted_entry &node) {
    queues_.remove(node);
    set_flags(*reinterpret_cast<expected &>(node).entry, 0, O2G_QUEUED);
    return false;
  });
}

status receiver::add_socket(int socket, int rank) {
  if (rank < 0)
    return fail(status::invalid, "a rank of %d", rank);
  lock_guard lock{mutex_};
  if (by_rank_.contains(rank))
    return fail(status::exists, "rank %d has a socket", rank);
  if (connections_.size() == socket_count_max_)
    return fail(status::too_many_files, "more than %u sockets", socket_count_max_);
  auto const id = port::adopt_shared(*set_, socket, connections_.size());
  if (!id.ok())
    return id.error();
  by_rank_.emplace(rank, uint32_t(connections_.size()));
  connections_.push_back({.id = result<port::stream_id>{id}.value(), .rank = rank});
  open_count_++;
  return status::ok;
}

status receiver::set_dump_area(std::span<std::byte> memory) {
  lock_guard lock{mutex_};
  if (dump_ != nullptr)
    return fail(status::busy, "there is a dump area");
  auto made = port::area::create(memory);
  if (!made.ok())
    return made.error();
  dump_ = std::move(made).value();
  uint64_t const before = event_count_;
  unblock_what_fits();
  tell(before);
  return status::ok;
}

status receiver::start_threads(uint32_t count) {
  lock_guard lock{mutex_};
  if (threads_.size() + count > O2G_THREAD_COUNT_MAX)
    return fail(status::invalid, "more than %d threads", O2G_THREAD_COUNT_MAX);
  for (uint32_t i = 0; i < count; i++) {
    try {
      threads_.emplace_back([this] {
        unique_lock held{mutex_};
        while (!is_stopping_) {
          step(held, TND_NO_DEADLINE);
          make_way(held);
        }
      });
    } catch (const std::system_error &error) {
      return fail(status::no_memory, "a thread cannot be started: %s", error.what());
    }
  }
  return status::ok;
}

// Did a message that the caller cannot have seen come for this entry?
bool receiver::is_raced(const queue_entry &entry, const match_pattern &pattern) {
  if (sequence() <= entry.sequence)
    return false;
  arrived_entry *const oldest = queues_.find_arrived(pattern);
  if (oldest == nullptr)
    return false;
  if (of_node(*oldest).entry.sequence > entry.sequence)
    return true;
  // The caller left that one where it was. What is newer is at the end.
  for (match_link *at = unexpected_.before; at != &unexpected_; at = at->before) {
    unexpected const &one = *of_all(at);
    if (one.entry.sequence <= entry.sequence)
      return false;
    if (one.node.queued && matches(pattern, one.node.key))
      return true;
  }
  return false;
}

status receiver::put(queue_entry &entry) {
  uint32_t const flags = o2g_entry_flags(&entry);
  bool const is_done = (flags & (O2G_RECEIVED | O2G_FAILED)) != 0;
  bool const is_under_way = (flags & O2G_QUEUED) != 0 || ((flags & O2G_MATCHED) != 0 && !is_done);
  if (!has_sound_pattern(entry) || is_under_way || (flags & O2G_UNEXPECTED) != 0 ||
      (entry.data == nullptr && entry.size != 0))
    return fail(status::invalid, "an entry with flags %#x, source %d, tag %d", flags, entry.source,
                entry.tag);
  auto const lock = enter();
  match_pattern const pattern = pattern_of(entry);
  if (is_raced(entry, pattern)) {
    race_count_++;
    return status::again;
  }
  auto *const wanted = new (entry.reserved) expected;
  wanted->node.pattern = pattern;
  wanted->entry = &entry;
  entry.status = TND_OK;
  set_flags(entry, 0, ~uint32_t{0});
  uint64_t const before = event_count_;
  if (!unblock_for(*wanted)) {
    connection const *const from = entry.source == O2G_ANY_SOURCE ? nullptr : of_rank(entry.source);
    if (from != nullptr && from->at == stage::ended)
      return fail(from->code, "the connection of rank %d has ended", from->rank);
    set_flags(entry, O2G_QUEUED);
    queues_.add(wanted->node);
  }
  drive_if_alone();
  tell(before);
  return status::ok;
}

status receiver::cancel(queue_entry &entry) {
  auto const lock = enter();
  uint32_t const flags = o2g_entry_flags(&entry);
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
  auto const lock = enter();
  uint32_t const flags = o2g_entry_flags(&entry);
  if ((flags & O2G_UNEXPECTED) == 0)
    return fail(status::invalid, "the entry is not in the dump area");
  if ((flags & (O2G_RECEIVED | O2G_FAILED)) == 0)
    return fail(status::busy, "the message is still coming");
  unexpected &whole = unexpected_of(entry);
  if (whole.node.queued)
    queues_.remove(whole.node);
  whole.all.take_out();
  unexpected_count_--;
  dump_->release(&whole);
  uint64_t const before = event_count_;
  unblock_what_fits();
  tell(before);
  return status::ok;
}

status receiver::find(queue_entry &wanted, queue_entry *&found) {
  if (!has_sound_pattern(wanted))
    return fail(status::invalid, "source %d, tag %d", wanted.source, wanted.tag);
  auto const lock = enter();
  uint64_t const before = event_count_;
  drive_if_alone();
  tell(before);
  arrived_entry *const node = queues_.find_arrived(pattern_of(wanted));
  if (node == nullptr) {
    wanted.sequence = sequence();
    return status::no_entry;
  }
  queues_.remove(*node);
  found = &of_node(*node).entry;
  set_flags(*found, O2G_CLAIMED);
  return status::ok;
}

queue_entry *receiver::next(const queue_entry *after) {
  auto const lock = enter();
  match_link *const at = after == nullptr
                             ? unexpected_.behind
                             : unexpected_of(*const_cast<queue_entry *>(after)).all.behind;
  return at == &unexpected_ ? nullptr : &of_all(at)->entry;
}

status receiver::poll(uint64_t *seen, uint64_t timeout_ns) {
  uint64_t const deadline_ns = port::deadline_after(port::monotonic_clock().now_ns(), timeout_ns);
  unique_lock lock{mutex_};
  if (seen == nullptr)
    seen = &polled_;
  for (bool is_first = true;; is_first = false) {
    if (event_count_ != *seen) {
      *seen = event_count_;
      return status::ok;
    }
    if (open_count_ == 0)
      return fail(status::peer_lost, "no connection is left");
    if (!is_first && port::monotonic_clock().now_ns() >= deadline_ns)
      return status::timed_out;
    step(lock, deadline_ns);
    make_way(lock);
  }
}

status receiver::rank_status(int rank) {
  auto const lock = enter();
  connection const *const of = of_rank(rank);
  if (of == nullptr)
    return fail(status::no_entry, "no socket was registered for rank %d", rank);
  return of->at == stage::ended ? of->code : status::ok;
}

void receiver::count(o2g_statistics &into) {
  auto const lock = enter();
  into.socket_count = open_count_;
  into.blocked_count = uint32_t(blocked_.size());
  into.thread_count = uint32_t(threads_.size());
  into.expected_count = queues_.posted_count();
  into.unexpected_count = unexpected_count_;
  into.dump_free_size = dump_ == nullptr ? 0 : dump_->free_size();
  into.received_count = received_count_;
  into.race_count = race_count_;
}

receiver::connection *receiver::of_rank(int32_t rank) {
  auto const found = by_rank_.find(rank);
  return found == by_rank_.end() ? nullptr : &connections_[found->second];
}

void receiver::settle(queue_entry &entry, uint32_t flags) {
  event_count_++;
  set_flags(entry, flags);  // from here on an entry of the caller's may be gone
}

size_t receiver::drive_if_alone() {
  return threads_.empty() ? set_->drive() : 0;
}

// Wakes whoever waits when something has happened since.
void receiver::tell(uint64_t event_count_before) {
  if (event_count_ == event_count_before)
    return;
  changed_.notify_all();
  if (has_leader_)
    set_->wake();
}

// For calls that do not wait for messages: whoever receives has the lock for one part at most, see
// wants_break().
unique_lock<mutex> receiver::enter() {
  unique_lock lock{mutex_, std::try_to_lock};
  if (lock.owns_lock())
    return lock;
  wanted_count_.fetch_add(1);
  for (int i = 0; i < spin_count_max && !lock.owns_lock(); i++) {
    port::spin_pause();
    (void)lock.try_lock();
  }
  for (int i = 0; i < yield_count_max && !lock.owns_lock(); i++) {
    std::this_thread::yield();  // to a holder that other programs have taken the processor from
    (void)lock.try_lock();
  }
  if (!lock.owns_lock())
    lock.lock();
  wanted_count_.fetch_sub(1);
  return lock;
}

// Else a thread that receives all the time would take the lock again before the caller does.
void receiver::make_way(unique_lock<mutex> &lock) {
  if (wanted_count_.load() == 0)
    return;
  lock.unlock();
  for (int i = 0; i < yield_count_max && wanted_count_.load() != 0; i++)
    std::this_thread::yield();
  lock.lock();
}

// Handle what has come; when nothing has, wait for it once, or for whoever does.
void receiver::step(unique_lock<mutex> &lock, uint64_t deadline_ns) {
  uint64_t const before = event_count_;
  if (has_leader_) {
    if (deadline_ns == TND_NO_DEADLINE)
      return changed_.wait(lock);
    uint64_t const now_ns = port::monotonic_clock().now_ns();
    if (now_ns < deadline_ns)
      changed_.wait_for(lock, std::chrono::nanoseconds{deadline_ns - now_ns});
    return;
  }
  if (set_->drive() == 0) {
    has_leader_ = true;
    lock.unlock();
    (void)set_->wait(deadline_ns);
    lock.lock();
    has_leader_ = false;
    if (!is_stopping_)
      set_->drive();
    changed_.notify_all();  // another must lead
  } else if (event_count_ != before) {
    changed_.notify_all();
  }
}

}  // namespace tanada::o2g::seed
