// A stream_set on epoll: level-triggered, one wait for all, bytes by recvmsg straight to where they
// are to land.

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
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::port {

namespace {

constexpr uint64_t listener_word = ~uint64_t{0} - 1, waker_word = ~uint64_t{0} - 2;
constexpr size_t event_count_max = 64;
// Drives that may pass over all but the busiest connection: while that has something, and in vain.
constexpr uint32_t look_around_interval = 16, look_around_interval_vain = 4;
// Times in a row that the busiest one had something before it is taken out of the kernel's set.
constexpr uint32_t streak_min = 64;

// The call for several parts costs the kernel a tenth of a microsecond more.
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

// Where parts of at least so many bytes land, what follows them is most likely the head of another
// one, and of what is shown together with it each byte is copied once more. Until as much as this
// is there, and nothing lands.
constexpr size_t bulk_size_min = 32 << 10, bulk_shown_size = 4 << 10;

class epoll_stream_set final : public socket_stream_set {
 public:
  explicit epoll_stream_set(const stream_set_options &options)
      : socket_stream_set{options}, shown_(options.shown_size) {}

  status start() {
    if (!has_descriptors())
      return socket_status(errno);
    return control(EPOLL_CTL_ADD, event_, waker_word, EPOLLIN);
  }

  const char *name() const noexcept override {
    return "epoll";
  }

  // Taken out of the set altogether: an end that nobody handles yet would make every wait return at
  // once.
  status pause(stream_id id) override {
    connection *const found = find(id);
    if (found == nullptr || found->is_paused)
      return status::ok;
    found->is_paused = true;
    stop_telling(*found, id);
    return status::ok;
  }

  status resume(stream_id id) override {
    connection *const found = find(id);
    if (found == nullptr || !found->is_paused)
      return status::ok;
    TND_TRY(control(EPOLL_CTL_ADD, found->socket, id, events_of(*found)));
    found->is_paused = false;
    return status::ok;
  }

  size_t drive() override {
    size_t count = 0;
    // A loop that waits for one peer's answers need not ask for all the others each time.
    connection *const busiest =
        is_busiest_alone_ && room_wanted_count_ == 0 ? find(busiest_) : nullptr;
    bool const is_direct = busiest != nullptr && !busiest->is_paused;
    if (is_direct && (++passed_over_ < look_around_interval || is_outside(busiest_))) {
      count = receive(*busiest, busiest_);
      if (count != 0) {
        vain_ = 0;
        streak_++;
      }
      if (count != 0 && streak_ >= streak_min)
        take_out(busiest_);
      if (count != 0 && passed_over_ < look_around_interval)
        return count;
      if (count == 0 && options_.may_look_seldom && ++vain_ % look_around_interval_vain != 0)
        return 0;
    } else if (!is_direct) {
      watch_all();
      if (connection *const left = find(outside_); left != nullptr)
        count = receive(*left, outside_);
    }
    passed_over_ = 0;
    std::array<epoll_event, event_count_max> events;
    int const found = epoll_wait(poll_, events.data(), int(events.size()), 0);
    if (found > 0)
      count += serve_all(std::span{events}.first(size_t(found)));
    return count + tend();
  }

 private:
  status control(int what, int descriptor, uint64_t word, uint32_t events) {
    epoll_event event{.events = events, .data = {.u64 = word}};
    return epoll_ctl(poll_, what, descriptor, &event) == 0 ? status::ok : socket_status(errno);
  }
  static uint32_t events_of(const connection &what) {
    return EPOLLIN | (what.wants_room ? uint32_t(EPOLLOUT) : 0u);
  }

  status watch_listener() override {
    return control(EPOLL_CTL_ADD, listener_, listener_word, EPOLLIN);
  }
  void unwatch_listener() override {
    epoll_ctl(poll_, EPOLL_CTL_DEL, listener_, nullptr);
  }

  status watch(connection &what, stream_id id) override {
    what.wants_room = what.is_connecting;
    TND_TRY(control(EPOLL_CTL_ADD, what.socket, id, events_of(what)));
    room_wanted_count_ += what.wants_room;
    return status::ok;
  }

  void unwatch(connection &what, stream_id id) override {
    room_wanted_count_ -= std::exchange(what.wants_room, false);
    stop_telling(what, id);
  }
  // Closing is not enough: a process that was forked meanwhile holds the socket, too, and would
  // keep it in the set.
  void stop_telling(const connection &what, stream_id id) {
    lock_guard const lock{outside_mutex_};
    if (is_outside(id))
      return outside_.store(no_stream);
    epoll_ctl(poll_, EPOLL_CTL_DEL, what.socket, nullptr);
  }

  // The busiest connection is looked at directly, so while nobody sleeps it need not be in the
  // kernel's set: each message that comes on a connection in there costs its sender some 200 ns,
  // and the next look around more.
  bool is_outside(stream_id id) const noexcept {
    return outside_.load(std::memory_order_relaxed) == id;
  }
  void take_out(stream_id id) {
    streak_ = 0;
    connection const *const found = find(id);
    if (!options_.may_look_seldom || found == nullptr || found->is_paused || found->wants_room ||
        is_outside(id))
      return;
    watch_all();
    lock_guard const lock{outside_mutex_};
    if (outside_.load() != no_stream)
      return;
    // In this order: who begins to sleep after the look at the sleepers finds it outside, and puts
    // it back when we are done.
    outside_socket_ = found->socket;
    outside_.store(id);
    if (is_slept_on() || epoll_ctl(poll_, EPOLL_CTL_DEL, found->socket, nullptr) != 0)
      outside_.store(no_stream);
  }
  // Without memory for it, it stays outside: whoever sleeps is late for what comes, and drive()
  // looks at it all the same.
  void watch_all() const noexcept override {
    if (outside_.load() == no_stream)
      return;
    lock_guard const lock{outside_mutex_};
    stream_id const id = outside_.load();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    if (id != no_stream && epoll_ctl(poll_, EPOLL_CTL_ADD, outside_socket_, &event) == 0)
      outside_.store(no_stream);
  }

  void watch_for_room(connection &what, stream_id id) override {
    change(what, id, true);
  }
  void change(connection &what, stream_id id, bool wants_room) {
    if (is_outside(id))
      watch_all();
    room_wanted_count_ += uint32_t(wants_room) - uint32_t(what.wants_room);
    what.wants_room = wants_room;
    if (!what.is_paused)
      (void)control(EPOLL_CTL_MOD, what.socket, id, events_of(what));
  }

  // The kernel reports the same connections in the same order each time: after a break, those that
  // were not served have their turn first. At least one is served.
  size_t serve_all(std::span<const epoll_event> events) {
    size_t const first = next_turn_ % events.size();
    size_t served_count = 0;
    size_t i = 0;
    for (; i < events.size() && (served_count == 0 || !handler_->wants_break()); i++) {
      served_count += serve(events[(first + i) % events.size()]);
    }
    next_turn_ = i < events.size() ? first + i : 0;
    return served_count;
  }

  size_t serve(const epoll_event &event) {
    if (event.data.u64 == waker_word)
      return 0;
    if (event.data.u64 == listener_word) {
      is_busiest_alone_ = false;
      return accept_some();
    }
    stream_id const id = event.data.u64;
    connection *found = find(id);
    if (found == nullptr || found->is_paused)
      return 0;
    if (found->is_connecting)
      return finish_connect(*found, id, event.events);
    size_t count = 0;
    if ((event.events & EPOLLOUT) != 0 && found->wants_room) {
      change(*found, id, false);
      handler_->writable(found->word);
      count++;
      found = find(id);
      if (found == nullptr || found->is_paused)
        return count;
    }
    if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0)
      return count;
    is_busiest_alone_ = busiest_ == id;
    if (!is_busiest_alone_)
      streak_ = 0;
    busiest_ = id;
    return count + receive(*found, id);
  }

  size_t finish_connect(connection &what, stream_id id, uint32_t events) {
    if (!has_connected(what, id, (events & (EPOLLERR | EPOLLHUP)) != 0))
      return 1;
    change(what, id, false);
    handler_->connected(what.word);
    return 1;
  }

  // How many calls of the handler.
  size_t receive(connection &from, stream_id id) {
    size_t count = 0;
    connection *at = &from;
    for (uint64_t received = 0; received < share_size;) {
      auto const whole = handler_->landing(at->word);
      auto const target = whole.first(std::min(whole.size(), piece_size));
      if (target.size() >= bulk_size_min)
        at->is_bulky = true;
      bool const is_piece = target.size() < whole.size();  // what follows it lands, too
      size_t const shown_size =
          at->is_bulky ? std::min(shown_.size(), bulk_shown_size) : shown_.size();
      std::span const shown{shown_.data(), is_piece ? 0 : shown_size};
      ssize_t const size = receive_parts(at->socket, target, shown);
      if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return count;
      if (size <= 0) {
        end(*at, id, size == 0 ? status::peer_lost : socket_status(errno));
        return count + 1;
      }
      received += uint64_t(size);
      size_t const landed = std::min(size_t(size), target.size());
      size_t const rest = size_t(size) - landed;
      if (landed != 0)
        handler_->landed(at->word, landed);
      if (rest != 0)
        show(id, shown.first(rest));
      count++;
      at = find(id);
      if (at == nullptr || at->is_paused)
        return count;
      bool const is_full = size_t(size) == target.size() + shown.size();
      if (!is_full)
        return count;  // there was less than we could take
      if (handler_->wants_break())
        return count;
      if (at->is_bulky)
        at->is_bulky = !handler_->landing(at->word).empty();
    }
    return count;
  }

  std::vector<std::byte> shown_;
  uint32_t room_wanted_count_ = 0;  // connections that want room
  stream_id busiest_ = no_stream;   // the last one that had something
  bool is_busiest_alone_ = false;   // it was so the time before, too
  uint32_t passed_over_ = 0, vain_ = 0, streak_ = 0;
  size_t next_turn_ = 0;  // among the events of the kernel, after a break
  mutable mutex outside_mutex_;
  mutable std::atomic<stream_id> outside_ =
      no_stream;             // set by who drives, to `busiest_`; unset by any thread
  int outside_socket_ = -1;  // valid while outside_ is
};

}  // namespace

result<std::unique_ptr<stream_set>> epoll_stream_set_create(const stream_set_options &options) {
  auto made = std::make_unique<epoll_stream_set>(options);
  status const started = made->start();
  if (started != status::ok)
    return fail(started, "no epoll: no descriptor is left (see ulimit -n)");
  return std::unique_ptr<stream_set>{std::move(made)};
}

}  // namespace tanada::port
