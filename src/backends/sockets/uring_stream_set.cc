// A stream_set on io_uring: receives stay armed in the kernel (multishot, into buffers that it is
// lent), so that looking for news costs no call of the system. What is to land in a large place is
// received straight there.
//
// Accepting is by a call: a request for it would go by the limit of descriptors that held when it
// was made.
//
// Requests run in the thread that armed them, and are canceled when it ends; whoever drives next
// arms them anew. The ring has no single issuer for that reason. Waiting is by an epoll descriptor
// over the ring's own and the one that wakes.

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
#include "core/base/log.hpp"
#include "executor/sanitizer.hpp"

namespace tanada::port {

namespace {

constexpr size_t buffer_size_max = 16 << 10;
constexpr size_t direct_size_min = 32
                                   << 10;  // smaller places are filled by copying from the buffers
constexpr size_t batch_count_max = 256;    // completions in one drive

// Of a request, in the upper bits of its number; below them the connection's.
enum class request : uint64_t { ignored, accept, shared, direct, room };
constexpr unsigned request_shift = 60;

uint64_t number_of(request what, stream_id id) {
  return uint64_t(what) << request_shift | id;
}

void be_blocking(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
}  // or requests end at once

bool is_passing(int error) {
  return error == ECANCELED || error == EINTR || error == EAGAIN;
}

class uring_stream_set final : public socket_stream_set {
 public:
  explicit uring_stream_set(const stream_set_options &options) : socket_stream_set{options} {}
  // The kernel lets go of sockets and memory only when no request has them.
  ~uring_stream_set() override {
    if (listener_ >= 0)
      shutdown(listener_, SHUT_RDWR);
    if (ring_.has_started())
      ring_.cancel_now(0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  }

  status start() {
    if (!has_descriptors())
      return status::no_memory;
    TND_TRY(ring_.start(std::min<size_t>(options_.shown_size, buffer_size_max)));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
    for (int const each : {event_, ring_.descriptor()})
      if (epoll_ctl(poll_, EPOLL_CTL_ADD, each, &event) != 0)
        return socket_status(errno);
    return status::ok;
  }

  const char *name() const noexcept override {
    return "io_uring";
  }
  size_t drive() override;

 private:
  using receiving = connection::receiving;

  status watch_listener() override;
  status watch(connection &what, stream_id id) override;
  void unwatch(connection &what, stream_id id) override;
  void watch_for_room(connection &what, stream_id id) override {
    arm_room(what, id);
    ring_.submit();
  }

  void arm_accept();
  void arm_room(connection &of, stream_id id);
  void arm_shared(connection &of, stream_id id);
  void arm_direct(connection &of, stream_id id, std::span<std::byte> target);
  void stop_shared(connection &of, stream_id id);
  size_t handle(uint64_t number, int value, unsigned flags);
  size_t handle_accept();
  size_t handle_room(connection &of, stream_id id);
  size_t handle_shared(connection &of, stream_id id, int value, unsigned flags);
  size_t handle_direct(connection &of, stream_id id, int value);
  size_t receive_on(stream_id id);

  uring ring_;
};

status uring_stream_set::watch_listener() {
  arm_accept();
  ring_.submit();
  return status::ok;
}

status uring_stream_set::watch(connection &what, stream_id id) {
  be_blocking(what.socket);
  if (what.is_connecting)
    arm_room(what, id);
  else
    arm_shared(what, id);
  ring_.submit();
  return status::ok;
}

// One that receives into the handler's memory is waited for; others that wait end with the
// shutdown.
void uring_stream_set::unwatch(connection &what, stream_id id) {
  if (what.now == receiving::direct)
    ring_.cancel_now(number_of(request::direct, id), 0);
  ring_.submit();  // or a request would meet whoever gets the descriptor next
  shutdown(what.socket, SHUT_RDWR);
  what.now = receiving::nothing;
}

void uring_stream_set::arm_accept() {
  auto *const entry = ring_.entry();
  io_uring_prep_poll_add(entry, listener_, POLLIN);
  io_uring_sqe_set_data64(entry, number_of(request::accept, 0));
}

void uring_stream_set::arm_room(connection &of, stream_id id) {
  auto *const entry = ring_.entry();
  io_uring_prep_poll_add(entry, of.socket, POLLOUT);
  io_uring_sqe_set_data64(entry, number_of(request::room, id));
  of.wants_room = true;
}

void uring_stream_set::arm_shared(connection &of, stream_id id) {
  auto *const entry = ring_.entry();
  io_uring_prep_recv_multishot(entry, of.socket, nullptr, 0, 0);
  entry->flags |= IOSQE_BUFFER_SELECT;
  entry->buf_group = uring::buffer_group;
  io_uring_sqe_set_data64(entry, number_of(request::shared, id));
  of.now = receiving::shared;
}

void uring_stream_set::arm_direct(connection &of, stream_id id, std::span<std::byte> target) {
  auto *const entry = ring_.entry();
  io_uring_prep_recv(entry, of.socket, target.data(), target.size(), 0);
  io_uring_sqe_set_data64(entry, number_of(request::direct, id));
  of.now = receiving::direct;
}

// What is in the buffers already comes before what is then received directly: its completions come
// first.
void uring_stream_set::stop_shared(connection &of, stream_id id) {
  auto *const entry = ring_.entry();
  io_uring_prep_cancel64(entry, number_of(request::shared, id), 0);
  io_uring_sqe_set_data64(entry, number_of(request::ignored, 0));
  of.now = receiving::stopping;
}

size_t uring_stream_set::drive() {
  size_t count = 0;
  std::array<io_uring_cqe *, batch_count_max> news;
  unsigned const found = ring_.peek(news);
  if (found != 0)
    simt::host::acquire_edge(&sent_);
  for (unsigned i = 0; i < found && (count == 0 || !handler_->wants_break()); i++) {
    // Given back first: a handler may submit, and the kernel may need the room.
    uint64_t const number = io_uring_cqe_get_data64(news[i]);
    int const value = news[i]->res;
    unsigned const flags = news[i]->flags;
    ring_.seen();
    count += handle(number, value, flags);
  }
  count += tend();
  ring_.submit();
  return count;
}

size_t uring_stream_set::handle(uint64_t number, int value, unsigned flags) {
  auto const what = request(number >> request_shift);
  stream_id const id = number & ((uint64_t{1} << request_shift) - 1);
  if (what == request::accept)
    return handle_accept();
  connection *const of = find(id);
  size_t count = 0;
  if (of != nullptr) {
    if (what == request::room)
      return handle_room(*of, id);
    if (what == request::direct)
      return handle_direct(*of, id, value);
    if (what == request::shared)
      count = handle_shared(*of, id, value, flags);
  }
  if ((flags & IORING_CQE_F_BUFFER) != 0)
    ring_.lend(flags >> IORING_CQE_BUFFER_SHIFT);
  return count;
}

size_t uring_stream_set::handle_accept() {
  size_t const count = accept_some();
  if (is_accepting())
    arm_accept();
  return count;
}

size_t uring_stream_set::handle_room(connection &of, stream_id id) {
  of.wants_room = false;
  if (!of.is_connecting) {
    handler_->writable(of.word);
    return 1;
  }
  pollfd look{.fd = of.socket, .events = POLLOUT, .revents = 0};
  if (poll(&look, 1, 0) != 1) {
    arm_room(of, id);  // the thread that armed it ended, not the connect
    return 0;
  }
  if (!has_connected(of, id, (look.revents & (POLLERR | POLLHUP)) != 0))
    return 1;
  handler_->connected(of.word);
  return 1 + receive_on(id);
}

size_t uring_stream_set::handle_shared(connection &of, stream_id id, int value, unsigned flags) {
  if ((flags & IORING_CQE_F_MORE) == 0)
    of.now = receiving::nothing;
  size_t count = 0;
  if (value > 0) {
    count = show(id, {ring_.buffer_at(flags >> IORING_CQE_BUFFER_SHIFT), size_t(value)});
  } else if (value != -ENOBUFS && !is_passing(-value)) {
    end(of, id, value == 0 ? status::peer_lost : socket_status(-value));
    return 1;
  }
  connection *const still = find(id);
  if (still == nullptr)
    return count;
  if (still->now == receiving::nothing)
    return count + receive_on(id);
  if (still->now == receiving::shared && handler_->landing(still->word).size() >= direct_size_min)
    stop_shared(*still, id);
  return count;
}

size_t uring_stream_set::handle_direct(connection &of, stream_id id, int value) {
  of.now = receiving::nothing;
  if (value > 0) {
    handler_->landed(of.word, size_t(value));
  } else if (!is_passing(-value)) {
    end(of, id, value == 0 ? status::peer_lost : socket_status(-value));
    return 1;
  }
  return 1 + receive_on(id);
}

// If nothing is armed for it: take what is there, if there is a large place for it, and arm. How
// many calls of the handler.
size_t uring_stream_set::receive_on(stream_id id) {
  size_t count = 0;
  for (uint64_t received = 0;;) {
    connection *const of = find(id);
    if (of == nullptr || of->now != receiving::nothing)
      return count;
    auto const target = handler_->landing(of->word);
    bool const is_direct = target.size() >= direct_size_min;
    bool const goes_on = received < share_size && (received == 0 || !handler_->wants_break());
    if (is_direct && goes_on) {
      size_t const piece = std::min(target.size(), piece_size);
      ssize_t const size = recv(of->socket, target.data(), piece, MSG_DONTWAIT);
      if (size > 0) {
        received += uint64_t(size);
        count++;
        handler_->landed(of->word, size_t(size));
        continue;
      }
      if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        end(*of, id, size == 0 ? status::peer_lost : socket_status(errno));
        return count + 1;
      }
    }
    if (is_direct)
      arm_direct(*of, id, target);
    else
      arm_shared(*of, id);
    return count;
  }
}

}  // namespace

result<std::unique_ptr<stream_set>> uring_stream_set_create(const stream_set_options &options) {
  auto made = std::make_unique<uring_stream_set>(options);
  status const started = made->start();
  if (started != status::ok)
    return fail(started,
                "no io_uring for connections: the kernel is older than 6.0, or refuses it");
  return std::unique_ptr<stream_set>{std::move(made)};
}

}  // namespace tanada::port
