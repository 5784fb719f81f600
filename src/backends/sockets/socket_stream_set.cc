// backends/sockets/socket_stream_set.cc: the part of stream sets that does not depend on how
// sockets are polled.
#include "backends/sockets/socket_stream_set.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backends/sockets/socket_options.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "executor/sanitizer.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {

namespace {

constexpr uint64_t accept_pause_ns = 100'000'000;
constexpr size_t accept_count_max = 64;  // in one call

// The call for several parts costs the kernel 0.1 us more.
ssize_t send_parts(int socket, std::span<const iovec> parts) {
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (parts.size() == 1)
    return ::send(socket, parts[0].iov_base, parts[0].iov_len, flags);
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts.data());
  message.msg_iovlen = parts.size();
  return sendmsg(socket, &message, flags);
}

}  // namespace

socket_stream_set::socket_stream_set(const seams::stream_set_options &options)
    : options_{options},
      poll_{epoll_create1(EPOLL_CLOEXEC)},
      event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {}

socket_stream_set::~socket_stream_set() {
  for (connection const &entry : connections_)
    if (entry.socket >= 0)
      ::close(entry.socket);
  for (int const descriptor : {listener_, event_, poll_})
    if (descriptor >= 0)
      ::close(descriptor);
}

result<seams::socket_address> socket_stream_set::listen(const seams::socket_address &address) {
  seams::socket_address bound = address;
  status code = status::ok;
  listener_ = socket_listen(bound, code);
  if (listener_ < 0)
    return code;
  TND_TRY(watch_listener());
  return bound;
}

result<seams::stream_id> socket_stream_set::connect(const seams::socket_address &target,
                                                    const seams::socket_address &source,
                                                    uint64_t word) {
  status code = status::ok;
  int const socket = socket_connect(target, source, options_, code);
  if (socket < 0)
    return code;
  return add(socket, word, true);
}

result<seams::stream_id> socket_stream_set::adopt(int socket, uint64_t word) {
  socket_prepare(socket, options_);
  return add(socket, word, false);
}

result<seams::stream_id> socket_stream_set::add(int socket, uint64_t word, bool is_connecting) {
  if (free_.empty() && connections_.size() >= options_.connection_count_max) {
    ::close(socket);
    return status::too_many_files;
  }
  if (free_.empty()) {
    free_.reserve(connections_.size() + 1);  // so that close() needs no memory
    connections_.emplace_back();
    free_.push_back(uint32_t(connections_.size() - 1));
  }
  uint32_t const index = free_.back();
  connection &entry = connections_[index];
  TND_ASSERT(socket >= 0 && entry.socket < 0);
  entry = {.socket = socket,
           .generation = entry.generation,
           .word = word,
           .is_connecting = is_connecting};
  seams::stream_id const id = uint64_t{entry.generation} << 32 | index;
  if (status const code = watch(entry, id); code != status::ok) {
    ::close(std::exchange(entry.socket, -1));
    return code;
  }
  free_.pop_back();
  if (next_loss_check_ns_ == 0)
    next_loss_check_ns_ = seams::monotonic_clock().now_ns() + loss_check_interval_ns(options_);
  return id;
}

result<size_t> socket_stream_set::send(seams::stream_id id, std::span<const iovec> parts) {
  connection *const entry = find(id);
  if (entry == nullptr || entry->is_failed)
    return status::peer_lost;
  if (entry->is_connecting)
    return size_t{0};
  simt::host::release_edge(&sent_);
  ssize_t const sent = send_parts(entry->socket, parts);
  if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
    entry->is_failed = true;             // data sent before are still received; then the connection
                                         // ends
    shutdown(entry->socket, SHUT_RDWR);  // also after insufficient memory or a firewall rule, when
                                         // the socket itself is intact
    return status::peer_lost;
  }
  size_t size = 0;
  for (iovec const &part : parts)
    size += part.iov_len;
  size_t const taken_size = sent < 0 ? 0 : size_t(sent);
  if (taken_size < size && !entry->wants_writable)
    watch_writable(*entry, id);
  return taken_size;
}

void socket_stream_set::close(seams::stream_id id) {
  if (connection *const entry = find(id); entry != nullptr)
    forget(*entry, id);
}

void socket_stream_set::forget(connection &entry, seams::stream_id id) {
  TND_ASSERT(find(id) == &entry);
  unwatch(entry, id);
  ::close(std::exchange(entry.socket, -1));
  entry.generation = (entry.generation + 1) & generation_mask;
  free_.push_back(uint32_t(id));
}

void socket_stream_set::end(connection &entry, seams::stream_id id, status code) {
  TND_ASSERT(handler_ != nullptr);
  uint64_t const word = entry.word;
  forget(entry, id);
  handler_->on_closed(word, code);
}

uint64_t socket_stream_set::unsent_size(seams::stream_id id) const {
  connection const *const entry = find(id);
  return entry == nullptr || entry->is_failed ? 0 : socket_unsent_size(entry->socket);
}

seams::socket_address socket_stream_set::peer(seams::stream_id id) const {
  connection const *const entry = find(id);
  return entry == nullptr ? seams::socket_address{} : socket_peer(entry->socket);
}

size_t socket_stream_set::accept_some() {
  TND_ASSERT(listener_ >= 0 && handler_ != nullptr);
  size_t count = 0;
  while (count < accept_count_max) {
    int const socket = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      bool const is_short =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_short)
        pause_accepting(errno);
      return count;
    }
    count += add_accepted(socket);
  }
  return count;
}

// Returns the number of handler calls.
size_t socket_stream_set::add_accepted(int socket) {
  socket_prepare(socket, options_);
  auto const id = add(socket, 0, false);
  if (!id.ok()) {
    if (log_limit_.admit(seams::monotonic_clock().now_ns()))
      log(log_level::error,
          "a connection was rejected: the limit of {} is reached, or memory is insufficient ({} "
          "more not logged)",
          options_.connection_count_max,
          log_limit_.take_suppressed_count());
    return 0;
  }
  seams::stream_id const accepted_id = result<seams::stream_id>{id}.value();
  uint64_t const word = handler_->on_accepted(accepted_id);
  if (connection *const entry = find(accepted_id); entry != nullptr)
    entry->word = word;
  return 1;
}

bool socket_stream_set::has_connected(connection &entry, seams::stream_id id, bool has_hung_up) {
  TND_ASSERT(entry.is_connecting);
  status const code = socket_error(entry.socket);
  if (code != status::ok || has_hung_up) {
    end(entry, id, code == status::ok ? status::peer_lost : code);
    return false;
  }
  entry.is_connecting = false;
  socket_suit_node(entry.socket);
  return true;
}

// Asks the handler for a target before each part.
size_t socket_stream_set::deliver(seams::stream_id id, std::span<const std::byte> bytes) {
  size_t count = 0;
  connection *entry = find(id);
  for (auto rest = bytes; entry != nullptr && !rest.empty(); entry = find(id)) {
    auto const target = handler_->receive_target(entry->word);
    size_t taken_size = std::min(target.size(), rest.size());
    if (taken_size != 0) {
      std::copy_n(rest.data(), taken_size, target.data());
      handler_->on_placed(entry->word, taken_size);
    } else {
      taken_size = handler_->on_received(entry->word, rest);
      TND_ASSERT(taken_size != 0 && taken_size <= rest.size());
    }
    count++;
    rest = rest.subspan(taken_size);
  }
  return count;
}

// Pending connections would make every wait return immediately, so the listener is not watched for
// a while.
void socket_stream_set::pause_accepting(int error) {
  if (log_limit_.admit(seams::monotonic_clock().now_ns()))
    log(log_level::error,
        "no connection can be accepted: {} (see ulimit -n); trying again in 0.1 s ({} more times "
        "not logged)",
        error == EMFILE ? "this process has too many files open"
                        : "the system is short of files or memory",
        log_limit_.take_suppressed_count());
  unwatch_listener();
  accept_again_ns_ = seams::monotonic_clock().now_ns() + accept_pause_ns;
}

size_t socket_stream_set::run_timers() {
  if (accept_again_ns_ != 0 && seams::monotonic_clock().now_ns() >= accept_again_ns_) {
    bool const is_watched = watch_listener() == status::ok;
    accept_again_ns_ = is_watched ? 0 : seams::monotonic_clock().now_ns() + accept_pause_ns;
  }
  return next_loss_check_ns_ != 0 ? end_lost_connections() : 0;
}

size_t socket_stream_set::end_lost_connections() {
  uint64_t const now_ns = seams::monotonic_clock().now_ns();
  if (now_ns < next_loss_check_ns_)
    return 0;
  next_loss_check_ns_ = 0;
  size_t count = 0;
  for (size_t i = 0; i < connections_.size(); i++) {
    connection &entry = connections_[i];
    if (entry.socket < 0)
      continue;
    next_loss_check_ns_ = now_ns + loss_check_interval_ns(options_);
    if (entry.is_connecting || entry.is_failed ||
        !socket_is_lost(entry.socket, options_, entry.is_timeout_disabled))
      continue;
    end(entry, uint64_t{entry.generation} << 32 | i, status::timed_out);
    count++;
  }
  return count;
}

status socket_stream_set::wait(uint64_t deadline_ns) {
  waiters_.fetch_add(1);
  watch_all();
  uint64_t end_ns = deadline_ns;
  for (uint64_t const own_ns : {accept_again_ns_.load(), next_loss_check_ns_.load()})
    if (own_ns != 0)
      end_ns = std::min(end_ns, own_ns);
  bool const has_event =
      wait_until(end_ns) || end_ns < deadline_ns;  // its own timers count as events
  // The last waiter clears the wake-up, so that all waiters have seen it. A wake-up that arrives at
  // that moment is cleared, too. A thread that must not miss one checks its condition from time to
  // time.
  if (waiters_.fetch_sub(1) == 1) {
    uint64_t value = 0;
    (void)!read(event_, &value, sizeof value);
  }
  return has_event ? status::ok : status::timed_out;
}

bool socket_stream_set::wait_until(uint64_t deadline_ns) {
  for (;;) {
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    uint64_t const rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    bool const is_endless = deadline_ns == ~uint64_t{0};
    timespec const rest{time_t(rest_ns / 1'000'000'000), long(rest_ns % 1'000'000'000)};
    epoll_event event;
    int const event_count = epoll_pwait2(poll_, &event, 1, is_endless ? nullptr : &rest, nullptr);
    if (event_count > 0)
      return true;
    if (event_count == 0 || errno != EINTR)
      return false;
  }
}

int socket_stream_set::descriptor() const noexcept {
  is_poll_exposed_.store(true);
  watch_all();
  return poll_;
}

void socket_stream_set::wake() noexcept {
  uint64_t const value = 1;
  (void)!write(event_, &value, sizeof value);
}

}  // namespace tanada::backends
