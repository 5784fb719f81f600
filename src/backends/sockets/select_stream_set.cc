// backends/sockets/select_stream_set.cc: a stream_set on select(2): one select of all connections,
// then one receive from each readable one. It is what MPI libraries over sockets do, and serves as
// the comparison for receiving on arrival.
//
// The sets of select hold descriptors below FD_SETSIZE. Connections join the epoll set of the base
// when a thread sleeps for the first time, since wait() sleeps there. Until then, arriving data
// cost nothing but what select itself costs.

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "backends/sockets/socket_options.hpp"
#include "backends/sockets/socket_stream_set.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::seams {

namespace {

constexpr stream_id listener_id = no_stream - 1;

class select_stream_set final : public backends::socket_stream_set {
 public:
  explicit select_stream_set(const stream_set_options &options)
      : backends::socket_stream_set{options}, buffer_(options.receive_size_max) {
    FD_ZERO(&readable_);
    FD_ZERO(&writable_);
    ids_.fill(no_stream);
  }

  status start() {
    if (!has_descriptors())
      return backends::socket_status(errno);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = no_stream}};
    return epoll_ctl(poll_, EPOLL_CTL_ADD, event_, &event) == 0 ? status::ok
                                                                : backends::socket_status(errno);
  }

  const char *name() const noexcept override {
    return "select";
  }

  status pause(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || entry->is_paused)
      return status::ok;
    entry->is_paused = true;
    lock_guard const lock{mutex_};
    remove(entry->socket);
    return status::ok;
  }

  status resume(stream_id id) override {
    connection *const entry = find(id);
    if (entry == nullptr || !entry->is_paused)
      return status::ok;
    TND_TRY(add(entry->socket, id, entry->wants_writable));
    entry->is_paused = false;
    return status::ok;
  }

  size_t progress() override {
    fd_set readable = readable_;
    fd_set writable = writable_;
    timeval no_time{};
    int const ready_count = select(end_, &readable, &writable, nullptr, &no_time);
    TND_ASSERT(ready_count >= 0 || errno == EINTR || errno == ENOMEM);
    return (ready_count > 0 ? serve_all(readable, writable) : 0) + run_timers();
  }

 private:
  // A connection that is ready and follows the one that was served last comes first.
  size_t serve_all(const fd_set &readable, const fd_set &writable) {
    int const end = end_;
    int const first = next_ < end ? next_ : 0;
    size_t count = 0;
    for (int i = 0; i < end && (count == 0 || !handler_->should_stop()); i++) {
      int const socket = first + i < end ? first + i : first + i - end;
      bool const is_readable = FD_ISSET(socket, &readable);
      bool const is_writable = FD_ISSET(socket, &writable);
      if (!is_readable && !is_writable)
        continue;
      next_ = socket + 1;
      count += serve(ids_[size_t(socket)], is_readable, is_writable);
    }
    return count;
  }

  // A call of the handler for another connection may have ended or replaced this one.
  size_t serve(stream_id id, bool is_readable, bool is_writable) {
    if (id == listener_id)
      return accept_some();
    connection *entry = find(id);
    if (entry == nullptr || entry->is_paused)
      return 0;
    if (entry->is_connecting)
      return is_writable ? finish_connect(*entry, id) : 0;
    size_t count = 0;
    if (is_writable && entry->wants_writable) {
      set_writable(*entry, id, false);
      handler_->on_writable(entry->word);
      count++;
      entry = find(id);
      if (entry == nullptr || entry->is_paused)
        return count;
    }
    return count + (is_readable ? receive(*entry, id) : 0);
  }

  size_t finish_connect(connection &entry, stream_id id) {
    if (!has_connected(entry, id, false))
      return 1;
    set_writable(entry, id, false);
    handler_->on_connected(entry.word);
    return 1;
  }

  size_t receive(connection &entry, stream_id id) {
    std::span<std::byte> const target = handler_->receive_target(entry.word);
    std::span<std::byte> const place =
        target.empty() ? std::span{buffer_} : target.first(std::min(target.size(), piece_size));
    ssize_t const size = recv(entry.socket, place.data(), place.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
      return 0;
    if (size <= 0) {
      end(entry, id, size == 0 ? status::peer_lost : backends::socket_status(errno));
      return 1;
    }
    if (target.empty())
      return deliver(id, place.first(size_t(size)));
    handler_->on_placed(entry.word, size_t(size));
    return 1;
  }

  status watch_listener() override {
    return add(listener_, listener_id, false);
  }
  void unwatch_listener() override {
    lock_guard const lock{mutex_};
    remove(listener_);
  }
  status watch(connection &entry, stream_id id) override {
    TND_TRY(add(entry.socket, id, entry.is_connecting));
    entry.wants_writable = entry.is_connecting;
    return status::ok;
  }
  void unwatch(connection &entry, stream_id) override {
    lock_guard const lock{mutex_};
    remove(entry.socket);
  }
  void watch_writable(connection &entry, stream_id id) override {
    set_writable(entry, id, true);
  }

  void set_writable(connection &entry, stream_id id, bool wants_writable) {
    entry.wants_writable = wants_writable;
    if (entry.is_paused)
      return;
    TND_ASSERT(entry.socket < FD_SETSIZE);
    lock_guard const lock{mutex_};
    if (wants_writable)
      FD_SET(entry.socket, &writable_);
    else
      FD_CLR(entry.socket, &writable_);
    if (has_slept_)
      (void)report(EPOLL_CTL_MOD, entry.socket, id);
  }

  status add(int socket, stream_id id, bool wants_writable) {
    TND_ASSERT(socket >= 0);
    if (socket >= FD_SETSIZE)
      return fail(status::too_many_files,
                  "select cannot watch descriptor {}: its limit is {} (TND_O2G_RECEIVE=arrival has "
                  "no such limit)",
                  socket,
                  FD_SETSIZE);
    lock_guard const lock{mutex_};
    FD_SET(socket, &readable_);
    if (wants_writable)
      FD_SET(socket, &writable_);
    ids_[size_t(socket)] = id;
    end_ = std::max(end_, socket + 1);
    if (!has_slept_)
      return status::ok;
    status const code = report(EPOLL_CTL_ADD, socket, id);
    if (code != status::ok)
      clear(socket);
    return code;
  }

  void remove(int socket) TND_REQUIRES(mutex_) {
    TND_ASSERT(socket >= 0 && socket < FD_SETSIZE);
    // Closing the socket is not enough: a process forked meanwhile also has it open.
    if (has_slept_)
      epoll_ctl(poll_, EPOLL_CTL_DEL, socket, nullptr);
    clear(socket);
  }
  void clear(int socket) TND_REQUIRES(mutex_) {
    FD_CLR(socket, &readable_);
    FD_CLR(socket, &writable_);
    ids_[size_t(socket)] = no_stream;
    while (end_ > 0 && ids_[size_t(end_ - 1)] == no_stream)
      end_--;
  }

  status report(int operation, int socket, stream_id id) const TND_REQUIRES(mutex_) {
    uint32_t const events = EPOLLIN | (FD_ISSET(socket, &writable_) ? uint32_t(EPOLLOUT) : 0u);
    epoll_event event{.events = events, .data = {.u64 = id}};
    return epoll_ctl(poll_, operation, socket, &event) == 0 ? status::ok
                                                            : backends::socket_status(errno);
  }
  // If the kernel has insufficient memory for a connection, sleepers are late for its data, but
  // progress() still polls it.
  void watch_all() const noexcept override {
    lock_guard const lock{mutex_};
    if (has_slept_)
      return;
    has_slept_ = true;
    for (int socket = 0; socket < end_; socket++)
      if (ids_[size_t(socket)] != no_stream)
        (void)report(EPOLL_CTL_ADD, socket, ids_[size_t(socket)]);
  }

  std::vector<std::byte> buffer_;
  int next_ = 0;  // the descriptor to serve first
  // The thread in progress() changes these under the mutex and may read them without it. Threads
  // about to sleep read them under the mutex.
  fd_set readable_{}, writable_{};
  std::array<stream_id, FD_SETSIZE> ids_{};
  int end_ = 0;  // all descriptors are below it
  mutable mutex mutex_;
  mutable bool has_slept_ TND_GUARDED_BY(mutex_) = false;  // all connections are in the epoll set
};

}  // namespace

result<std::unique_ptr<stream_set>> select_stream_set_create(const stream_set_options &options) {
  auto created = std::make_unique<select_stream_set>(options);
  status const started = created->start();
  if (started != status::ok)
    return fail(started, "cannot create a set for select: out of descriptors (see ulimit -n)");
  return std::unique_ptr<stream_set>{std::move(created)};
}

}  // namespace tanada::seams
