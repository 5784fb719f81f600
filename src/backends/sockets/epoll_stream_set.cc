// backends/sockets/epoll_stream_set.cc: a stream_set on epoll. It is level-triggered, uses one wait
// for all connections, and receives bytes directly into the handler's memory.

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>
#include <vector>

#include "backends/sockets/socket_options.hpp"
#include "backends/sockets/socket_stream_set.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::seams {

namespace {

// waker_word: events of descriptors that only end a wait.
constexpr uint64_t listener_word = ~uint64_t{0} - 1, waker_word = ~uint64_t{0} - 2;
static_assert(listener_word != no_stream && waker_word != no_stream);
constexpr size_t event_count_max = 64;
// The number of progress() calls that may poll only the busiest connection: while it receives data,
// and after empty polls.
constexpr uint32_t full_poll_interval = 16;
constexpr uint32_t full_poll_interval_idle = 4;
static_assert(full_poll_interval_idle <= full_poll_interval);
// After this many successive receives, the busiest connection is removed from the kernel's set.
constexpr uint32_t streak_min = 64;

// The call for several parts costs the kernel 0.1 us more.
ssize_t receive_parts(int socket, std::span<std::byte> first, std::span<std::byte> rest) {
  if (first.empty())
    return recv(socket, rest.data(), rest.size(), MSG_DONTWAIT);
  if (rest.empty())
    return recv(socket, first.data(), first.size(), MSG_DONTWAIT);
  std::array<iovec, 2> parts{iovec{first.data(), first.size()}, iovec{rest.data(), rest.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return recvmsg(socket, &message, MSG_DONTWAIT);
}

// If a large body is placed directly, the bytes after it are probably the head of another one, and
// bytes received with that head into the buffer are copied once more. So receive at most
// `bulk_buffer_size` bytes into the buffer, until a receive of that size needs no placement.
constexpr size_t bulk_size_min = 32 << 10;
constexpr size_t bulk_buffer_size = 4 << 10;
static_assert(bulk_buffer_size < bulk_size_min);

class epoll_stream_set final : public backends::socket_stream_set {
 public:
  explicit epoll_stream_set(const stream_set_options &options)
      : backends::socket_stream_set{options}, buffer_(options.receive_size_max) {}

  status start() {
    if (!has_descriptors())
      return backends::socket_status(errno);
    return control(EPOLL_CTL_ADD, event_, waker_word, EPOLLIN);
  }

  const char *name() const noexcept override {
    return "epoll";
  }

  // Removed from the set completely: an unhandled end of the connection would make every wait
  // return immediately.
  status pause(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || entry->is_paused)
      return status::ok;
    entry->is_paused = true;
    stop_reporting(*entry, id);
    return status::ok;
  }

  status resume(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || !entry->is_paused)
      return status::ok;
    TND_TRY(control(EPOLL_CTL_ADD, entry->socket, id, events_of(*entry)));
    entry->is_paused = false;
    return status::ok;
  }

  // Watched only while it must become writable: an end of the connection that its user has not read
  // would make every wait return immediately.
  result<int> lend(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || entry->is_connecting || entry->is_paused || entry->is_lent)
      return status::bad_state;
    stop_reporting(*entry, id);
    entry->is_lent = true;
    if (entry->wants_writable)
      TND_TRY(control(EPOLL_CTL_ADD, entry->socket, id, EPOLLOUT));
    return entry->socket;
  }

  status reclaim(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || !entry->is_lent)
      return status::ok;
    int const operation = entry->wants_writable ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    TND_TRY(control(operation, entry->socket, id, events_of(*entry)));
    entry->is_lent = false;
    return status::ok;
  }

  status watch_also(int descriptor) override {
    return control(EPOLL_CTL_ADD, descriptor, waker_word, EPOLLIN);
  }

  size_t progress() override {
    size_t count = 0;
    // A loop that waits for one peer's replies need not poll all other connections each time.
    connection *const busiest =
        is_busiest_repeated_ && writable_watch_count_ == 0 ? find(busiest_) : nullptr;
    bool const is_direct = busiest != nullptr && !busiest->is_paused && !busiest->is_lent;
    if (is_direct && (++skipped_poll_count_ < full_poll_interval || is_unwatched(busiest_))) {
      bool may_skip_others = false;
      count = receive_busiest(*busiest, may_skip_others);
      if (may_skip_others)
        return count;
    } else if (!is_direct) {
      watch_all();
      if (connection *const unwatched = find(unwatched_); unwatched != nullptr)
        count = receive(*unwatched, unwatched_);
    }
    skipped_poll_count_ = 0;
    std::array<epoll_event, event_count_max> events;
    int const event_count = epoll_wait(poll_, events.data(), int(events.size()), 0);
    if (event_count > 0)
      count += serve_all(std::span{events}.first(size_t(event_count)));
    return count + run_timers();
  }

 private:
  status control(int operation, int descriptor, uint64_t word, uint32_t events) {
    epoll_event event{.events = events, .data = {.u64 = word}};
    return epoll_ctl(poll_, operation, descriptor, &event) == 0 ? status::ok
                                                                : backends::socket_status(errno);
  }
  static uint32_t events_of(const connection &entry) {
    return EPOLLIN | (entry.wants_writable ? uint32_t(EPOLLOUT) : 0u);
  }

  status watch_listener() override {
    return control(EPOLL_CTL_ADD, listener_, listener_word, EPOLLIN);
  }
  void unwatch_listener() override {
    epoll_ctl(poll_, EPOLL_CTL_DEL, listener_, nullptr);
  }

  status watch(connection &entry, stream_id id) override {
    entry.wants_writable = entry.is_connecting;
    TND_TRY(control(EPOLL_CTL_ADD, entry.socket, id, events_of(entry)));
    writable_watch_count_ += entry.wants_writable;
    return status::ok;
  }

  void unwatch(connection &entry, stream_id id) override {
    TND_ASSERT(!entry.wants_writable || writable_watch_count_ != 0);
    writable_watch_count_ -= std::exchange(entry.wants_writable, false);
    stop_reporting(entry, id);
  }
  // Closing the socket is not enough: a process forked meanwhile also has it open, and would keep
  // it in the set.
  void stop_reporting(const connection &entry, stream_id id) {
    lock_guard const lock{unwatched_mutex_};
    if (is_unwatched(id))
      return unwatched_.store(no_stream);
    epoll_ctl(poll_, EPOLL_CTL_DEL, entry.socket, nullptr);
  }

  // The busiest connection is polled directly, so it need not be in the kernel's set while no
  // thread sleeps. Each message on a connection in the set costs its sender some 200 ns, and makes
  // the next full poll longer.
  bool is_unwatched(stream_id id) const noexcept {
    return unwatched_.load(std::memory_order_relaxed) == id;
  }
  void unwatch_busiest(stream_id id) {
    TND_ASSERT(id == busiest_);
    streak_ = 0;
    connection const *const entry = find(id);
    if (!options_.may_skip_idle || entry == nullptr || entry->is_paused || entry->is_lent ||
        entry->wants_writable || is_unwatched(id))
      return;
    watch_all();
    lock_guard const lock{unwatched_mutex_};
    if (unwatched_.load() != no_stream)
      return;
    // The order matters: a thread that starts to sleep after the check of the sleepers finds the
    // connection outside the set, and adds it back when this thread releases the lock.
    unwatched_socket_ = entry->socket;
    unwatched_.store(id);
    if (is_slept_on() || epoll_ctl(poll_, EPOLL_CTL_DEL, entry->socket, nullptr) != 0)
      unwatched_.store(no_stream);
  }
  // If the kernel has insufficient memory, the connection stays outside the set: sleepers are late
  // for its data, but progress() still polls it.
  void watch_all() const noexcept override {
    if (unwatched_.load() == no_stream)
      return;
    lock_guard const lock{unwatched_mutex_};
    stream_id const id = unwatched_.load();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    if (id != no_stream && epoll_ctl(poll_, EPOLL_CTL_ADD, unwatched_socket_, &event) == 0)
      unwatched_.store(no_stream);
  }

  void watch_writable(connection &entry, stream_id id) override {
    change(entry, id, true);
  }
  void change(connection &entry, stream_id id, bool wants_writable) {
    if (is_unwatched(id))
      watch_all();
    TND_ASSERT(!entry.wants_writable || writable_watch_count_ != 0);
    writable_watch_count_ += uint32_t(wants_writable) - uint32_t(entry.wants_writable);
    entry.wants_writable = wants_writable;
    if (entry.is_lent)
      (void)control(wants_writable ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, entry.socket, id, EPOLLOUT);
    else if (!entry.is_paused)
      (void)control(EPOLL_CTL_MOD, entry.socket, id, events_of(entry));
  }

  // The kernel reports connections in the same order each time. After a break, connections that
  // were not served come first. At least one is served.
  size_t serve_all(std::span<const epoll_event> events) {
    TND_ASSERT(!events.empty());
    size_t const first = next_turn_ % events.size();
    size_t served_count = 0;
    size_t i = 0;
    for (; i < events.size() && (served_count == 0 || !handler_->should_stop()); i++) {
      served_count += serve(events[(first + i) % events.size()]);
    }
    next_turn_ = i < events.size() ? first + i : 0;
    return served_count;
  }

  size_t serve(const epoll_event &event) {
    if (event.data.u64 == waker_word)
      return 0;
    if (event.data.u64 == listener_word) {
      is_busiest_repeated_ = false;
      return accept_some();
    }
    stream_id const id = event.data.u64;
    connection *entry = find(id);
    if (entry == nullptr || entry->is_paused)
      return 0;
    if (entry->is_connecting)
      return finish_connect(*entry, id, event.events);
    size_t count = 0;
    if (((event.events & EPOLLOUT) != 0 || entry->is_lent) && entry->wants_writable) {
      change(*entry, id, false);
      handler_->on_writable(entry->word);
      count++;
      entry = find(id);
      if (entry == nullptr || entry->is_paused)
        return count;
    }
    if (entry->is_lent)
      return count;
    if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0)
      return count;
    is_busiest_repeated_ = busiest_ == id;
    if (!is_busiest_repeated_)
      streak_ = 0;
    busiest_ = id;
    return count + receive(*entry, id);
  }

  size_t finish_connect(connection &entry, stream_id id, uint32_t events) {
    if (!has_connected(entry, id, (events & (EPOLLERR | EPOLLHUP)) != 0))
      return 1;
    change(entry, id, false);
    handler_->on_connected(entry.word);
    return 1;
  }

  // Receives from the busiest connection. `may_skip_others`: no full poll is due.
  size_t receive_busiest(connection &entry, bool &may_skip_others) {
    stream_id const id = busiest_;
    size_t const count = receive(entry, id);
    if (count == 0) {
      may_skip_others =
          options_.may_skip_idle && ++empty_poll_count_ % full_poll_interval_idle != 0;
      return 0;
    }
    empty_poll_count_ = 0;
    streak_++;
    if (streak_ >= streak_min)
      unwatch_busiest(id);
    may_skip_others = skipped_poll_count_ < full_poll_interval;
    return count;
  }

  // Where the next bytes of a connection go: first to the handler's memory, then to the buffer.
  struct receive_plan {
    std::span<std::byte> target, buffer;

    size_t size() const {
      return target.size() + buffer.size();
    }
  };
  receive_plan plan_receive(connection &entry) {
    auto const full_target = handler_->receive_target(entry.word);
    auto const target = full_target.first(std::min(full_target.size(), piece_size));
    if (target.size() >= bulk_size_min)
      entry.is_bulky = true;
    // The bytes after a piece are placed directly, too.
    bool const is_piece = target.size() < full_target.size();
    size_t const buffer_size =
        entry.is_bulky ? std::min(buffer_.size(), bulk_buffer_size) : buffer_.size();
    return {target, {buffer_.data(), is_piece ? 0 : buffer_size}};
  }

  // Hands received bytes to the handler, which may close the connection.
  void hand_over(const connection &entry, stream_id id, const receive_plan &plan, size_t size) {
    TND_ASSERT(size <= plan.size());
    size_t const placed_size = std::min(size, plan.target.size());
    size_t const rest = size - placed_size;
    if (placed_size != 0)
      handler_->on_placed(entry.word, placed_size);
    if (rest != 0)
      deliver(id, plan.buffer.first(rest));
  }

  // Returns the number of handler calls.
  size_t receive(connection &first_entry, stream_id id) {
    size_t count = 0;
    connection *entry = &first_entry;
    for (uint64_t received = 0; received < share_size;) {
      receive_plan const plan = plan_receive(*entry);
      ssize_t const size = receive_parts(entry->socket, plan.target, plan.buffer);
      if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return count;
      if (size <= 0) {
        end(*entry, id, size == 0 ? status::peer_lost : backends::socket_status(errno));
        return count + 1;
      }
      received += uint64_t(size);
      hand_over(*entry, id, plan, size_t(size));
      count++;
      entry = find(id);
      if (entry == nullptr || entry->is_paused || entry->is_lent)
        return count;
      if (size_t(size) != plan.size())
        return count;  // the socket had fewer bytes than requested
      if (handler_->should_stop())
        return count;
      if (entry->is_bulky)
        entry->is_bulky = !handler_->receive_target(entry->word).empty();
    }
    return count;
  }

  std::vector<std::byte> buffer_;
  uint32_t writable_watch_count_ = 0;  // connections waiting to become writable
  stream_id busiest_ = no_stream;      // the last connection that received data
  bool is_busiest_repeated_ = false;   // it was also the busiest one before
  uint32_t skipped_poll_count_ = 0, empty_poll_count_ = 0, streak_ = 0;
  size_t next_turn_ = 0;  // index into the kernel's events, after a break
  mutable mutex unwatched_mutex_;
  mutable std::atomic<stream_id> unwatched_ =
      no_stream;  // set by the thread in progress() to `busiest_`; cleared by any thread
  int unwatched_socket_ TND_GUARDED_BY(unwatched_mutex_) = -1;  // valid while `unwatched_` is set
};

}  // namespace

result<std::unique_ptr<stream_set>> epoll_stream_set_create(const stream_set_options &options) {
  auto created = std::make_unique<epoll_stream_set>(options);
  status const started = created->start();
  if (started != status::ok)
    return fail(started, "cannot create an epoll set: out of descriptors (see ulimit -n)");
  return std::unique_ptr<stream_set>{std::move(created)};
}

}  // namespace tanada::seams
