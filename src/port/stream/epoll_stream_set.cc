// A stream_set on epoll: level-triggered, one wait for all, bytes by recvmsg straight to where they are to land.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "port/clock/clock.hpp"
#include "port/stream/socket_options.hpp"
#include "port/stream/stream_set.hpp"

namespace tanada::port {

namespace {

constexpr uint64_t listener_word = ~uint64_t{0} - 1, waker_word = ~uint64_t{0} - 2;
constexpr size_t event_count_max = 64;
constexpr uint64_t share_size = 1 << 20;      // bytes received from one connection before the next has its turn
constexpr uint32_t look_around_interval = 16;  // drives that may pass over all but the busiest connection
constexpr uint64_t accept_pause_ns = 100'000'000;

struct connection {
  int socket = -1;
  uint32_t generation = 0;
  uint64_t word = 0;
  bool is_connecting = false, wants_room = false, is_failed = false, is_paused = false, is_patient = false;
};

// The calls for several parts cost the kernel a tenth of a microsecond more.
ssize_t send_parts(int socket, std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts.data());
  message.msg_iovlen = parts.size();
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t receive_parts(int socket, std::span<std::byte> first, std::span<std::byte> rest) {
  std::array<iovec, 2> parts{iovec{first.data(), first.size()}, iovec{rest.data(), rest.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return recvmsg(socket, &message, MSG_DONTWAIT);
}

class epoll_stream_set final : public stream_set {
 public:
  explicit epoll_stream_set(const stream_set_options &options)
      : options_{options}, epoll_{epoll_create1(EPOLL_CLOEXEC)}, event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
        shown_(options.shown_size) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = waker_word}};
    if (epoll_ >= 0 && event_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  }
  ~epoll_stream_set() override {
    for (connection const &each : connections_)
      if (each.socket >= 0) ::close(each.socket);
    for (int const descriptor : {listener_, event_, epoll_})
      if (descriptor >= 0) ::close(descriptor);
  }

  bool is_good() const { return epoll_ >= 0 && event_ >= 0; }
  const char *name() const noexcept override { return "epoll"; }
  void attach(stream_handler &handler) override { handler_ = &handler; }
  int descriptor() const noexcept override { return epoll_; }
  socket_address peer(stream_id id) const override {
    connection const *const found = find(id);
    return found == nullptr ? socket_address{} : socket_peer(found->socket);
  }

  result<socket_address> listen(const socket_address &at) override {
    socket_address bound = at;
    status why = status::ok;
    listener_ = socket_listen(bound, why);
    if (listener_ < 0) return why;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = listener_word}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) != 0) return socket_status(errno);
    return bound;
  }

  result<stream_id> connect(const socket_address &to, const socket_address &from, uint64_t word) override {
    status why = status::ok;
    int const socket = socket_connect(to, from, options_, why);
    if (socket < 0) return why;
    return add(socket, word, true);
  }

  result<stream_id> adopt(int socket, uint64_t word) override {
    socket_prepare(socket, options_);
    return add(socket, word, false);
  }

  result<size_t> send(stream_id id, std::span<const iovec> parts, send_mode, bool *held) override {
    if (held != nullptr) *held = false;
    connection *const to = find(id);
    if (to == nullptr || to->is_failed) return status::peer_lost;
    if (to->is_connecting) return size_t{0};
    ssize_t const sent = parts.size() == 1 ? ::send(to->socket, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : send_parts(to->socket, parts);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
      to->is_failed = true;  // what it has sent before is still received: then it ends
      return status::peer_lost;
    }
    size_t size = 0;
    for (iovec const &part : parts) size += part.iov_len;
    size_t const taken = sent < 0 ? 0 : size_t(sent);
    if (taken < size && !to->wants_room) watch(*to, id, true);
    return taken;
  }

  void close(stream_id id) override {
    connection *const found = find(id);
    if (found != nullptr) forget(*found, id);
  }

  // Taken out of the set altogether: an end that nobody handles yet would make every wait return at once.
  status pause(stream_id id) override {
    connection *const found = find(id);
    if (found == nullptr || found->is_paused) return status::ok;
    found->is_paused = true;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, found->socket, nullptr);
    return status::ok;
  }

  status resume(stream_id id) override {
    connection *const found = find(id);
    if (found == nullptr || !found->is_paused) return status::ok;
    epoll_event event{.events = EPOLLIN | (found->wants_room ? uint32_t(EPOLLOUT) : 0u), .data = {.u64 = id}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, found->socket, &event) != 0) return socket_status(errno);
    found->is_paused = false;
    return status::ok;
  }

  size_t drive() override {
    size_t count = 0;
    // A loop that waits for one answer need not ask for all the others each time.
    connection *const busiest = find(busiest_);
    if (busiest != nullptr && !busiest->is_paused && ++passed_over_ < look_around_interval) {
      size_t const received = receive(*busiest, busiest_);
      if (received != 0) return count + received;
    }
    passed_over_ = 0;
    std::array<epoll_event, event_count_max> events;
    int const found = epoll_wait(epoll_, events.data(), int(events.size()), 0);
    for (int i = 0; i < found; i++) count += serve(events[size_t(i)]);
    if (accept_again_ns_ != 0) watch_listener();
    if (look_again_ns_ != 0) count += look_for_lost();
    return count;
  }

  status wait(uint64_t deadline_ns) override {
    waiters_.fetch_add(1);
    bool const has_come = wait_for_events(deadline_ns);
    // Whoever leaves last takes the wake-up with it, so that all who slept have seen it.
    // One that comes just then goes along: whoever must not miss it looks at his reason for sleeping now and then.
    if (waiters_.fetch_sub(1) == 1) {
      uint64_t value = 0;
      (void)!read(event_, &value, sizeof value);
    }
    return has_come ? status::ok : status::timed_out;
  }

  void wake() noexcept override {
    uint64_t const one = 1;
    (void)!write(event_, &one, sizeof one);
  }

  uint64_t unsent_size(stream_id id) const override {
    connection const *const found = find(id);
    return found == nullptr || found->is_failed ? 0 : socket_unsent_size(found->socket);
  }

 private:
  const connection *find(stream_id id) const {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size()) return nullptr;
    connection const &found = connections_[index];
    return found.socket >= 0 && found.generation == uint32_t(id >> 32) ? &found : nullptr;
  }
  connection *find(stream_id id) { return const_cast<connection *>(std::as_const(*this).find(id)); }

  result<stream_id> add(int socket, uint64_t word, bool is_connecting) {
    if (free_.empty() && connections_.size() >= options_.connection_count_max) {
      ::close(socket);
      return fail(status::too_many_files, "more than %u connections", options_.connection_count_max);
    }
    if (free_.empty()) {
      free_.push_back(uint32_t(connections_.size()));
      connections_.emplace_back();
    }
    uint32_t const index = free_.back();
    connection &made = connections_[index];
    stream_id const id = uint64_t{made.generation} << 32 | index;
    epoll_event event{.events = EPOLLIN | (is_connecting ? uint32_t(EPOLLOUT) : 0u), .data = {.u64 = id}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0) {
      status const why = socket_status(errno);
      ::close(socket);
      return why;
    }
    free_.pop_back();
    made.socket = socket;
    made.word = word;
    made.is_connecting = made.wants_room = is_connecting;
    made.is_failed = made.is_paused = made.is_patient = false;
    if (look_again_ns_ == 0) look_again_ns_ = monotonic_clock().now_ns() + patience_interval_ns(options_);
    return id;
  }

  void watch(connection &of, stream_id id, bool wants_room) {
    epoll_event event{.events = EPOLLIN | (wants_room ? uint32_t(EPOLLOUT) : 0u), .data = {.u64 = id}};
    of.wants_room = wants_room;
    if (!of.is_paused) epoll_ctl(epoll_, EPOLL_CTL_MOD, of.socket, &event);
  }

  void forget(connection &what, stream_id id) {
    // A process that was forked meanwhile holds the socket, too, and would keep it in the set.
    epoll_ctl(epoll_, EPOLL_CTL_DEL, what.socket, nullptr);
    ::close(what.socket);
    what.socket = -1;
    what.generation++;
    free_.push_back(uint32_t(id));
  }

  void end(connection &what, stream_id id, status why) {
    uint64_t const word = what.word;
    forget(what, id);
    handler_->ended(word, why);
  }

  size_t serve(const epoll_event &event) {
    if (event.data.u64 == waker_word) return 0;
    if (event.data.u64 == listener_word) return accept_some();
    stream_id const id = event.data.u64;
    connection *found = find(id);
    if (found == nullptr || found->is_paused) return 0;
    if (found->is_connecting) return finish_connect(*found, id, event.events);
    size_t count = 0;
    if ((event.events & EPOLLOUT) != 0 && found->wants_room) {
      watch(*found, id, false);
      handler_->writable(found->word);
      count++;
      found = find(id);
      if (found == nullptr || found->is_paused) return count;
    }
    if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return count;
    busiest_ = id;
    return count + receive(*found, id);
  }

  size_t finish_connect(connection &what, stream_id id, uint32_t events) {
    status const why = socket_error(what.socket);
    if (why != status::ok || (events & (EPOLLERR | EPOLLHUP)) != 0) {
      end(what, id, why == status::ok ? status::peer_lost : why);
      return 1;
    }
    what.is_connecting = false;
    socket_suit_node(what.socket);
    watch(what, id, false);
    handler_->connected(what.word);
    return 1;
  }

  // How many calls of the handler.
  size_t receive(connection &from, stream_id id) {
    size_t count = 0;
    connection *at = &from;
    for (uint64_t received = 0; received < share_size;) {
      auto const target = handler_->landing(at->word);
      ssize_t const size = target.empty() ? recv(at->socket, shown_.data(), shown_.size(), MSG_DONTWAIT)
                                          : receive_parts(at->socket, target, shown_);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) return count;
      if (size <= 0) {
        status const why = size == 0 ? status::peer_lost : socket_status(errno);
        end(*at, id, why);
        return count + 1;
      }
      received += uint64_t(size);
      size_t const landed = std::min(size_t(size), target.size());
      size_t const rest = size_t(size) - landed;
      if (landed != 0) handler_->landed(at->word, landed);
      at = landed != 0 ? find(id) : at;
      if (at != nullptr && rest != 0) show(*at, id, rest);
      at = find(id);
      count++;
      if (at == nullptr || at->is_paused) return count;
      if (rest < shown_.size()) return count;  // there was less than we could take
    }
    return count;
  }

  // Bytes that were received to be shown: each time the handler says anew where they go.
  void show(connection &to, stream_id id, size_t size) {
    std::span<const std::byte> rest{shown_.data(), size};
    for (connection *at = &to; at != nullptr && !rest.empty(); at = find(id)) {
      auto const target = handler_->landing(at->word);
      size_t taken = std::min(target.size(), rest.size());
      if (taken != 0) {
        std::copy_n(rest.data(), taken, target.data());
        handler_->landed(at->word, taken);
      } else {
        taken = handler_->shown(at->word, rest);
        TND_ASSERT(taken != 0 && taken <= rest.size());
      }
      rest = rest.subspan(taken);
    }
  }

  size_t accept_some() {
    size_t count = 0;
    while (count < event_count_max) {
      int const socket = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) {
        bool const is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (is_short) pause_accepting(errno);
        return count;
      }
      socket_prepare(socket, options_);
      auto const id = add(socket, 0, false);
      if (!id.ok()) {
        log(log_level::error, "a connection is turned away: there are %u already, or no memory", options_.connection_count_max);
        continue;
      }
      stream_id const number = result<stream_id>{id}.value();
      uint64_t const word = handler_->accepted(number);
      if (connection *const made = find(number); made != nullptr) made->word = word;
      count++;
    }
    return count;
  }

  // Those who wait would make every wait return at once.
  void pause_accepting(int error) {
    log(log_level::error, "no connection can be accepted: %s (see ulimit -n); trying again in 0.1 s",
        error == EMFILE ? "this process has too many files open" : "the system is short of files or memory");
    epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
    accept_again_ns_ = monotonic_clock().now_ns() + accept_pause_ns;
  }

  void watch_listener() {
    if (monotonic_clock().now_ns() < accept_again_ns_) return;
    accept_again_ns_ = 0;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = listener_word}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event);
  }

  size_t look_for_lost() {
    uint64_t const now_ns = monotonic_clock().now_ns();
    if (now_ns < look_again_ns_) return 0;
    look_again_ns_ = 0;
    size_t count = 0;
    for (size_t i = 0; i < connections_.size(); i++) {
      connection &each = connections_[i];
      if (each.socket < 0) continue;
      look_again_ns_ = now_ns + patience_interval_ns(options_);
      if (each.is_connecting || each.is_failed || !socket_is_lost(each.socket, options_, each.is_patient)) continue;
      end(each, uint64_t{each.generation} << 32 | i, status::timed_out);
      count++;
    }
    return count;
  }

  // False: the caller's deadline has passed. The set's own deadlines are something to drive for.
  bool wait_for_events(uint64_t deadline_ns) {
    uint64_t until_ns = deadline_ns;
    for (uint64_t const own_ns : {accept_again_ns_.load(), look_again_ns_.load()})
      if (own_ns != 0) until_ns = std::min(until_ns, own_ns);
    return wait_until(until_ns) || until_ns < deadline_ns;
  }

  bool wait_until(uint64_t deadline_ns) {
    for (;;) {
      uint64_t const now_ns = monotonic_clock().now_ns();
      uint64_t const rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
      bool const is_endless = deadline_ns == ~uint64_t{0};
      timespec const rest{time_t(rest_ns / 1'000'000'000), long(rest_ns % 1'000'000'000)};
      epoll_event event;
      int const found = epoll_pwait2(epoll_, &event, 1, is_endless ? nullptr : &rest, nullptr);
      if (found > 0) return true;
      if (found == 0 || errno != EINTR) return false;
    }
  }

  stream_set_options const options_;
  int const epoll_, event_;
  int listener_ = -1;
  stream_handler *handler_ = nullptr;
  std::vector<connection> connections_;
  std::vector<uint32_t> free_;
  std::vector<std::byte> shown_;
  stream_id busiest_ = no_stream;
  uint32_t passed_over_ = 0;
  std::atomic<uint64_t> accept_again_ns_ = 0;  // 0: accepting
  std::atomic<uint64_t> look_again_ns_ = 0;    // for those that are lost; 0: there are no connections
  std::atomic<uint32_t> waiters_ = 0;
};

}  // namespace

result<std::unique_ptr<stream_set>> epoll_stream_set_create(const stream_set_options &options) {
  auto made = std::make_unique<epoll_stream_set>(options);
  if (!made->is_good()) return fail(socket_status(errno), "no epoll: no descriptor is left (see ulimit -n)");
  return std::unique_ptr<stream_set>{std::move(made)};
}

}  // namespace tanada::port
