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

namespace tanada::port {

namespace {

constexpr uint64_t accept_pause_ns = 100'000'000;
constexpr size_t accept_count_max = 64;  // at a time

// The call for several parts costs the kernel a tenth of a microsecond more.
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

socket_stream_set::socket_stream_set(const stream_set_options &options)
    : options_{options},
      poll_{epoll_create1(EPOLL_CLOEXEC)},
      event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {}

socket_stream_set::~socket_stream_set() {
  for (connection const &each : connections_)
    if (each.socket >= 0)
      ::close(each.socket);
  for (int const descriptor : {listener_, event_, poll_})
    if (descriptor >= 0)
      ::close(descriptor);
}

result<socket_address> socket_stream_set::listen(const socket_address &at) {
  socket_address bound = at;
  status why = status::ok;
  listener_ = socket_listen(bound, why);
  if (listener_ < 0)
    return why;
  TND_TRY(watch_listener());
  return bound;
}

result<stream_id> socket_stream_set::connect(const socket_address &to, const socket_address &from,
                                             uint64_t word) {
  status why = status::ok;
  int const socket = socket_connect(to, from, options_, why);
  if (socket < 0)
    return why;
  return add(socket, word, true);
}

result<stream_id> socket_stream_set::adopt(int socket, uint64_t word) {
  socket_prepare(socket, options_);
  return add(socket, word, false);
}

result<stream_id> socket_stream_set::add(int socket, uint64_t word, bool is_connecting) {
  if (free_.empty() && connections_.size() >= options_.connection_count_max) {
    ::close(socket);
    return status::too_many_files;
  }
  if (free_.empty()) {
    free_.reserve(connections_.size() + 1);  // closing needs no memory
    connections_.emplace_back();
    free_.push_back(uint32_t(connections_.size() - 1));
  }
  uint32_t const index = free_.back();
  connection &made = connections_[index];
  made = {.socket = socket,
          .generation = made.generation,
          .word = word,
          .is_connecting = is_connecting};
  stream_id const id = uint64_t{made.generation} << 32 | index;
  if (status const why = watch(made, id); why != status::ok) {
    ::close(std::exchange(made.socket, -1));
    return why;
  }
  free_.pop_back();
  if (look_again_ns_ == 0)
    look_again_ns_ = monotonic_clock().now_ns() + patience_interval_ns(options_);
  return id;
}

result<size_t> socket_stream_set::send(stream_id id, std::span<const iovec> parts) {
  connection *const to = find(id);
  if (to == nullptr || to->is_failed)
    return status::peer_lost;
  if (to->is_connecting)
    return size_t{0};
  simt::host::release_edge(&sent_);
  ssize_t const sent = send_parts(to->socket, parts);
  if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
    to->is_failed = true;             // what it has sent before is still received: then it ends
    shutdown(to->socket, SHUT_RDWR);  // also where the memory, or a rule of the system, was at
                                      // fault and the socket is sound
    return status::peer_lost;
  }
  size_t size = 0;
  for (iovec const &part : parts)
    size += part.iov_len;
  size_t const taken = sent < 0 ? 0 : size_t(sent);
  if (taken < size && !to->wants_room)
    watch_for_room(*to, id);
  return taken;
}

void socket_stream_set::close(stream_id id) {
  if (connection *const found = find(id); found != nullptr)
    forget(*found, id);
}

void socket_stream_set::forget(connection &what, stream_id id) {
  unwatch(what, id);
  ::close(std::exchange(what.socket, -1));
  what.generation = (what.generation + 1) & generation_mask;
  free_.push_back(uint32_t(id));
}

void socket_stream_set::end(connection &what, stream_id id, status why) {
  uint64_t const word = what.word;
  forget(what, id);
  handler_->ended(word, why);
}

uint64_t socket_stream_set::unsent_size(stream_id id) const {
  connection const *const found = find(id);
  return found == nullptr || found->is_failed ? 0 : socket_unsent_size(found->socket);
}

socket_address socket_stream_set::peer(stream_id id) const {
  connection const *const found = find(id);
  return found == nullptr ? socket_address{} : socket_peer(found->socket);
}

size_t socket_stream_set::accept_some() {
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
    count += take_in(socket);
  }
  return count;
}

// How many calls of the handler.
size_t socket_stream_set::take_in(int socket) {
  socket_prepare(socket, options_);
  auto const id = add(socket, 0, false);
  if (!id.ok()) {
    if (told_.admits(monotonic_clock().now_ns()))
      log(log_level::error,
          "a connection is turned away: there are %u already, or no memory (%llu more times not "
          "told)",
          options_.connection_count_max, static_cast<unsigned long long>(told_.take_left_out()));
    return 0;
  }
  stream_id const made = result<stream_id>{id}.value();
  uint64_t const word = handler_->accepted(made);
  if (connection *const found = find(made); found != nullptr)
    found->word = word;
  return 1;
}

bool socket_stream_set::has_connected(connection &what, stream_id id, bool has_hung_up) {
  status const why = socket_error(what.socket);
  if (why != status::ok || has_hung_up) {
    end(what, id, why == status::ok ? status::peer_lost : why);
    return false;
  }
  what.is_connecting = false;
  socket_suit_node(what.socket);
  return true;
}

// Each time the handler says anew where they go.
size_t socket_stream_set::show(stream_id id, std::span<const std::byte> bytes) {
  size_t count = 0;
  connection *at = find(id);
  for (auto rest = bytes; at != nullptr && !rest.empty(); at = find(id)) {
    auto const target = handler_->landing(at->word);
    size_t taken = std::min(target.size(), rest.size());
    if (taken != 0) {
      std::copy_n(rest.data(), taken, target.data());
      handler_->landed(at->word, taken);
    } else {
      taken = handler_->shown(at->word, rest);
      TND_ASSERT(taken != 0 && taken <= rest.size());
    }
    count++;
    rest = rest.subspan(taken);
  }
  return count;
}

// Those who wait to be accepted would make every wait return at once.
void socket_stream_set::pause_accepting(int error) {
  if (told_.admits(monotonic_clock().now_ns()))
    log(log_level::error,
        "no connection can be accepted: %s (see ulimit -n); trying again in 0.1 s (%llu more times "
        "not told)",
        error == EMFILE ? "this process has too many files open"
                        : "the system is short of files or memory",
        static_cast<unsigned long long>(told_.take_left_out()));
  unwatch_listener();
  accept_again_ns_ = monotonic_clock().now_ns() + accept_pause_ns;
}

size_t socket_stream_set::tend() {
  if (accept_again_ns_ != 0 && monotonic_clock().now_ns() >= accept_again_ns_) {
    bool const is_watched = watch_listener() == status::ok;
    accept_again_ns_ = is_watched ? 0 : monotonic_clock().now_ns() + accept_pause_ns;
  }
  return look_again_ns_ != 0 ? look_for_lost() : 0;
}

size_t socket_stream_set::look_for_lost() {
  uint64_t const now_ns = monotonic_clock().now_ns();
  if (now_ns < look_again_ns_)
    return 0;
  look_again_ns_ = 0;
  size_t count = 0;
  for (size_t i = 0; i < connections_.size(); i++) {
    connection &each = connections_[i];
    if (each.socket < 0)
      continue;
    look_again_ns_ = now_ns + patience_interval_ns(options_);
    if (each.is_connecting || each.is_failed ||
        !socket_is_lost(each.socket, options_, each.is_patient))
      continue;
    end(each, uint64_t{each.generation} << 32 | i, status::timed_out);
    count++;
  }
  return count;
}

status socket_stream_set::wait(uint64_t deadline_ns) {
  waiters_.fetch_add(1);
  watch_all();
  uint64_t until_ns = deadline_ns;
  for (uint64_t const own_ns : {accept_again_ns_.load(), look_again_ns_.load()})
    if (own_ns != 0)
      until_ns = std::min(until_ns, own_ns);
  bool const has_come = wait_until(until_ns) ||
                        until_ns < deadline_ns;  // its own deadlines are something to drive for
  // Whoever leaves last takes the wake-up with it, so that all who slept have seen it.
  // One that comes just then goes along: whoever must not miss it looks at his reason for sleeping
  // now and then.
  if (waiters_.fetch_sub(1) == 1) {
    uint64_t value = 0;
    (void)!read(event_, &value, sizeof value);
  }
  return has_come ? status::ok : status::timed_out;
}

bool socket_stream_set::wait_until(uint64_t deadline_ns) {
  for (;;) {
    uint64_t const now_ns = monotonic_clock().now_ns();
    uint64_t const rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    bool const is_endless = deadline_ns == ~uint64_t{0};
    timespec const rest{time_t(rest_ns / 1'000'000'000), long(rest_ns % 1'000'000'000)};
    epoll_event event;
    int const found = epoll_pwait2(poll_, &event, 1, is_endless ? nullptr : &rest, nullptr);
    if (found > 0)
      return true;
    if (found == 0 || errno != EINTR)
      return false;
  }
}

int socket_stream_set::descriptor() const noexcept {
  is_poll_told_.store(true);
  watch_all();
  return poll_;
}

void socket_stream_set::wake() noexcept {
  uint64_t const one = 1;
  (void)!write(event_, &one, sizeof one);
}

}  // namespace tanada::port
