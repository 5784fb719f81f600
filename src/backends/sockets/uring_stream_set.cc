// backends/sockets/uring_stream_set.cc: a stream_set on io_uring. Receives stay armed in the kernel
// (multishot, into provided buffers), so polling needs no system call. Large bodies are received
// directly into the handler's memory.
//
// Connections are accepted by a system call: a request would use the descriptor limit that held
// when it was posted.
//
// Requests belong to the thread that posted them and are canceled when it exits; the next thread in
// progress() posts them again. For that reason the ring has no single issuer. Threads wait on an
// epoll descriptor over the ring and the wake-up event.

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "backends/sockets/socket_options.hpp"
#include "backends/sockets/socket_stream_set.hpp"
#include "backends/sockets/uring.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "executor/sanitizer.hpp"

namespace tanada::seams {

namespace {

constexpr size_t buffer_size_max = 16 << 10;
constexpr size_t direct_size_min = 32
                                   << 10;  // smaller targets are filled by copying from the buffers
constexpr size_t batch_count_max = 256;    // completions in one progress() call

// The kind of a request, in the upper bits of its number; the lower bits are the connection's id.
enum class request : uint64_t { ignored, accept, shared, direct, writable };
constexpr unsigned request_shift = 60;
static_assert(uint64_t(request::writable) < uint64_t{1} << (64 - request_shift));
static_assert(direct_size_min > buffer_size_max);

uint64_t number_of(request kind, stream_id id) {
  TND_ASSERT(id >> request_shift == 0);
  return uint64_t(kind) << request_shift | id;
}

void set_blocking(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
}  // otherwise requests complete immediately

bool is_transient(int error) {
  return error == ECANCELED || error == EINTR || error == EAGAIN;
}

class uring_stream_set final : public backends::socket_stream_set {
 public:
  explicit uring_stream_set(const stream_set_options &options)
      : backends::socket_stream_set{options} {}
  // The kernel releases sockets and memory only when no request uses them.
  ~uring_stream_set() override {
    if (listener_ >= 0)
      shutdown(listener_, SHUT_RDWR);
    if (ring_.has_started())
      ring_.cancel_now(0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  }

  status start() {
    if (!has_descriptors())
      return status::no_memory;
    TND_TRY(ring_.start(std::min<size_t>(options_.receive_size_max, buffer_size_max)));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
    for (int const descriptor : {event_, ring_.descriptor()})
      if (epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event) != 0)
        return backends::socket_status(errno);
    return status::ok;
  }

  const char *name() const noexcept override {
    return "io_uring";
  }
  size_t progress() override;

 private:
  using receiving = connection::receiving;

  status watch_listener() override;
  status watch(connection &entry, stream_id id) override;
  void unwatch(connection &entry, stream_id id) override;
  void watch_writable(connection &entry, stream_id id) override {
    arm_writable(entry, id);
    ring_.submit();
  }

  void arm_accept();
  void arm_writable(connection &entry, stream_id id);
  void arm_shared(connection &entry, stream_id id);
  void arm_direct(connection &entry, stream_id id, std::span<std::byte> target);
  void stop_shared(connection &entry, stream_id id);
  size_t handle(uint64_t number, int value, unsigned flags);
  size_t handle_accept();
  size_t handle_writable(connection &entry, stream_id id);
  size_t handle_shared(connection &entry, stream_id id, int value, unsigned flags);
  size_t handle_direct(connection &entry, stream_id id, int value);
  size_t receive_on(stream_id id);

  backends::uring ring_;
};

status uring_stream_set::watch_listener() {
  arm_accept();
  ring_.submit();
  return status::ok;
}

status uring_stream_set::watch(connection &entry, stream_id id) {
  set_blocking(entry.socket);
  if (entry.is_connecting)
    arm_writable(entry, id);
  else
    arm_shared(entry, id);
  ring_.submit();
  return status::ok;
}

// A request that receives into the handler's memory is canceled synchronously; other requests end
// with the shutdown.
void uring_stream_set::unwatch(connection &entry, stream_id id) {
  if (entry.receive_state == receiving::direct)
    ring_.cancel_now(number_of(request::direct, id), 0);
  ring_.submit();  // otherwise a request could reach the next owner of the descriptor
  shutdown(entry.socket, SHUT_RDWR);
  entry.receive_state = receiving::nothing;
}

void uring_stream_set::arm_accept() {
  auto *const sqe = ring_.entry();
  io_uring_prep_poll_add(sqe, listener_, POLLIN);
  io_uring_sqe_set_data64(sqe, number_of(request::accept, 0));
}

void uring_stream_set::arm_writable(connection &entry, stream_id id) {
  TND_ASSERT(!entry.wants_writable);
  auto *const sqe = ring_.entry();
  io_uring_prep_poll_add(sqe, entry.socket, POLLOUT);
  io_uring_sqe_set_data64(sqe, number_of(request::writable, id));
  entry.wants_writable = true;
}

void uring_stream_set::arm_shared(connection &entry, stream_id id) {
  TND_ASSERT(entry.receive_state == receiving::nothing);
  auto *const sqe = ring_.entry();
  io_uring_prep_recv_multishot(sqe, entry.socket, nullptr, 0, 0);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = backends::uring::buffer_group;
  io_uring_sqe_set_data64(sqe, number_of(request::shared, id));
  entry.receive_state = receiving::shared;
}

void uring_stream_set::arm_direct(connection &entry, stream_id id, std::span<std::byte> target) {
  TND_ASSERT(entry.receive_state == receiving::nothing && !target.empty());
  auto *const sqe = ring_.entry();
  io_uring_prep_recv(sqe, entry.socket, target.data(), target.size(), 0);
  io_uring_sqe_set_data64(sqe, number_of(request::direct, id));
  entry.receive_state = receiving::direct;
}

// Bytes that are already in the buffers precede those received directly, because their completions
// come first.
void uring_stream_set::stop_shared(connection &entry, stream_id id) {
  TND_ASSERT(entry.receive_state == receiving::shared);
  auto *const sqe = ring_.entry();
  io_uring_prep_cancel64(sqe, number_of(request::shared, id), 0);
  io_uring_sqe_set_data64(sqe, number_of(request::ignored, 0));
  entry.receive_state = receiving::stopping;
}

size_t uring_stream_set::progress() {
  size_t count = 0;
  std::array<io_uring_cqe *, batch_count_max> completions;
  unsigned const completion_count = ring_.peek(completions);
  if (completion_count != 0)
    simt::host::acquire_edge(&sent_);
  for (unsigned i = 0; i < completion_count && (count == 0 || !handler_->should_stop()); i++) {
    // Consume the completion first: the handler may submit, and the kernel may need the space.
    uint64_t const number = io_uring_cqe_get_data64(completions[i]);
    int const value = completions[i]->res;
    unsigned const flags = completions[i]->flags;
    ring_.consume();
    count += handle(number, value, flags);
  }
  count += run_timers();
  ring_.submit();
  return count;
}

size_t uring_stream_set::handle(uint64_t number, int value, unsigned flags) {
  auto const kind = request(number >> request_shift);
  stream_id const id = number & ((uint64_t{1} << request_shift) - 1);
  if (kind == request::accept)
    return handle_accept();
  connection *const entry = find(id);
  size_t count = 0;
  if (entry != nullptr) {
    if (kind == request::writable)
      return handle_writable(*entry, id);
    if (kind == request::direct)
      return handle_direct(*entry, id, value);
    if (kind == request::shared)
      count = handle_shared(*entry, id, value, flags);
  }
  if ((flags & IORING_CQE_F_BUFFER) != 0)
    ring_.return_buffer(flags >> IORING_CQE_BUFFER_SHIFT);
  return count;
}

size_t uring_stream_set::handle_accept() {
  size_t const count = accept_some();
  if (is_accepting())
    arm_accept();
  return count;
}

size_t uring_stream_set::handle_writable(connection &entry, stream_id id) {
  entry.wants_writable = false;
  if (!entry.is_connecting) {
    handler_->on_writable(entry.word);
    return 1;
  }
  pollfd poll_entry{.fd = entry.socket, .events = POLLOUT, .revents = 0};
  if (poll(&poll_entry, 1, 0) != 1) {
    arm_writable(entry, id);  // its thread exited before the connect completed
    return 0;
  }
  if (!has_connected(entry, id, (poll_entry.revents & (POLLERR | POLLHUP)) != 0))
    return 1;
  handler_->on_connected(entry.word);
  return 1 + receive_on(id);
}

size_t uring_stream_set::handle_shared(connection &entry, stream_id id, int value, unsigned flags) {
  if ((flags & IORING_CQE_F_MORE) == 0)
    entry.receive_state = receiving::nothing;
  size_t count = 0;
  if (value > 0) {
    count = deliver(id, {ring_.buffer_at(flags >> IORING_CQE_BUFFER_SHIFT), size_t(value)});
  } else if (value != -ENOBUFS && !is_transient(-value)) {
    end(entry, id, value == 0 ? status::peer_lost : backends::socket_status(-value));
    return 1;
  }
  connection *const remaining = find(id);
  if (remaining == nullptr)
    return count;
  if (remaining->receive_state == receiving::nothing)
    return count + receive_on(id);
  if (remaining->receive_state == receiving::shared &&
      handler_->receive_target(remaining->word).size() >= direct_size_min)
    stop_shared(*remaining, id);
  return count;
}

size_t uring_stream_set::handle_direct(connection &entry, stream_id id, int value) {
  entry.receive_state = receiving::nothing;
  if (value > 0) {
    handler_->on_placed(entry.word, size_t(value));
  } else if (!is_transient(-value)) {
    end(entry, id, value == 0 ? status::peer_lost : backends::socket_status(-value));
    return 1;
  }
  return 1 + receive_on(id);
}

// If no receive is armed, receives available bytes into a large target, if there is one, and then
// arms a receive. Returns the number of handler calls.
size_t uring_stream_set::receive_on(stream_id id) {
  size_t count = 0;
  for (uint64_t received = 0;;) {
    connection *const entry = find(id);
    if (entry == nullptr || entry->receive_state != receiving::nothing)
      return count;
    auto const target = handler_->receive_target(entry->word);
    bool const is_direct = target.size() >= direct_size_min;
    bool const goes_on = received < share_size && (received == 0 || !handler_->should_stop());
    if (is_direct && goes_on) {
      size_t const piece = std::min(target.size(), piece_size);
      ssize_t const size = recv(entry->socket, target.data(), piece, MSG_DONTWAIT);
      if (size > 0) {
        received += uint64_t(size);
        count++;
        handler_->on_placed(entry->word, size_t(size));
        continue;
      }
      if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        end(*entry, id, size == 0 ? status::peer_lost : backends::socket_status(errno));
        return count + 1;
      }
    }
    if (is_direct)
      arm_direct(*entry, id, target);
    else
      arm_shared(*entry, id);
    return count;
  }
}

}  // namespace

result<std::unique_ptr<stream_set>> uring_stream_set_create(const stream_set_options &options) {
  auto created = std::make_unique<uring_stream_set>(options);
  status const started = created->start();
  if (started != status::ok)
    return fail(
        started,
        "cannot use io_uring for connections: the kernel is older than 6.0, or does not allow it");
  return std::unique_ptr<stream_set>{std::move(created)};
}

}  // namespace tanada::seams
