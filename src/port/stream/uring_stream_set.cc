// A stream_set on io_uring: accepts and receives stay armed in the kernel (multishot, into buffers that it is lent), so that
// looking for news costs no call of the system. What is to land in a large place is received straight there.
//
// Requests run in the thread that armed them, and are canceled when it ends; whoever drives next arms them anew. The ring has
// no single issuer for that reason. Waiting is by an epoll descriptor over the ring's own and the one that wakes.

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
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

constexpr unsigned submission_count = 1024, completion_count = 16384;
constexpr uint16_t buffer_group = 1;
constexpr unsigned buffer_count = 256;         // a power of two
constexpr size_t buffer_size_max = 16 << 10;
constexpr size_t direct_size_min = 32 << 10;   // smaller places are filled by copying from the buffers
constexpr size_t batch_count_max = 256;        // completions in one drive
constexpr uint64_t share_size = 1 << 20;       // bytes received directly from one connection before the next has its turn
constexpr uint64_t accept_pause_ns = 100'000'000;
constexpr long cancel_wait_ns = 100'000;
constexpr int cancel_count_max = 10'000;

// Of a request, in the upper bits of its number; below them the connection's generation and index.
enum class request : uint64_t { ignored, accept, shared, direct, room };
constexpr unsigned request_shift = 60;
constexpr uint64_t generation_mask = (uint64_t{1} << 28) - 1;

struct connection {
  enum class receiving : uint8_t { nothing, shared, stopping, direct };
  int socket = -1;
  uint32_t generation = 0;
  uint64_t word = 0;
  bool is_connecting = false, wants_room = false, is_failed = false, is_patient = false;
  receiving now = receiving::nothing;
};

using receiving = connection::receiving;

class uring_stream_set final : public stream_set {
 public:
  explicit uring_stream_set(const stream_set_options &options)
      : options_{options}, buffer_size_{std::min<size_t>(options.shown_size, buffer_size_max)}, poll_{epoll_create1(EPOLL_CLOEXEC)},
        event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {}
  ~uring_stream_set() override;
  status start();

  const char *name() const noexcept override { return "io_uring"; }
  void attach(stream_handler &handler) override { handler_ = &handler; }
  int descriptor() const noexcept override { return poll_; }
  socket_address peer(stream_id id) const override {
    connection const *const found = find(id);
    return found == nullptr ? socket_address{} : socket_peer(found->socket);
  }
  result<socket_address> listen(const socket_address &at) override;
  result<stream_id> connect(const socket_address &to, const socket_address &from, uint64_t word) override;
  result<stream_id> adopt(int socket, uint64_t word) override;
  result<size_t> send(stream_id id, std::span<const iovec> parts, send_mode mode, bool *held) override;
  void close(stream_id id) override {
    if (connection *const found = find(id); found != nullptr) forget(*found, id);
  }
  uint64_t unsent_size(stream_id id) const override {
    connection const *const found = find(id);
    return found == nullptr ? 0 : socket_unsent_size(found->socket);
  }
  size_t drive() override;
  status wait(uint64_t deadline_ns) override;
  void wake() noexcept override {
    uint64_t const one = 1;
    (void)!write(event_, &one, sizeof one);
  }

 private:
  const connection *find(stream_id id) const {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size()) return nullptr;
    connection const &found = connections_[index];
    return found.socket >= 0 && found.generation == uint32_t(id >> 32) ? &found : nullptr;
  }
  connection *find(stream_id id) { return const_cast<connection *>(std::as_const(*this).find(id)); }
  static uint64_t number(request what, stream_id id) { return uint64_t(what) << request_shift | id; }

  result<stream_id> add(int socket, uint64_t word, bool is_connecting);
  void forget(connection &what, stream_id id);
  void end(connection &what, stream_id id, status why);
  size_t look_for_lost();

  io_uring_sqe *entry();
  void arm_accept();
  void arm_room(connection &of, stream_id id);
  void receive_on(stream_id id, size_t &count);
  void stop_shared(connection &of, stream_id id);
  size_t handle(uint64_t data, int value, unsigned flags);
  size_t handle_accept(int value, unsigned flags);
  size_t handle_room(connection &of, stream_id id);
  size_t handle_shared(stream_id id, int value, unsigned flags);
  size_t handle_direct(stream_id id, int value);
  void show(stream_id id, std::span<const std::byte> bytes, size_t &count);
  void give_back(unsigned buffer);
  void cancel_now(uint64_t data, unsigned flags);
  std::byte *buffer_at(unsigned buffer) { return buffers_ + buffer * buffer_size_; }

  stream_set_options const options_;
  size_t const buffer_size_;
  int const poll_, event_;
  io_uring ring_{};
  bool has_ring_ = false;
  io_uring_buf_ring *lent_ = nullptr;
  std::byte *buffers_ = nullptr;
  int listener_ = -1;
  stream_handler *handler_ = nullptr;
  std::vector<connection> connections_;
  std::vector<uint32_t> free_;
  std::atomic<uint64_t> accept_again_ns_ = 0;  // 0: accepting
  std::atomic<uint64_t> look_again_ns_ = 0;    // for those that are lost; 0: there are no connections
  std::atomic<uint32_t> waiters_ = 0;
};

void be_blocking(int socket) { fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK); }  // or requests end at once

void *map(size_t size) {
  void *const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

status uring_stream_set::start() {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  parameters.cq_entries = completion_count;
  int const made = io_uring_queue_init_params(submission_count, &ring_, &parameters);
  if (made != 0) return socket_status(-made);
  has_ring_ = true;
  lent_ = static_cast<io_uring_buf_ring *>(map(buffer_count * sizeof(io_uring_buf)));
  buffers_ = static_cast<std::byte *>(map(buffer_count * buffer_size_));
  if (lent_ == nullptr || buffers_ == nullptr || poll_ < 0 || event_ < 0) return status::no_memory;
  io_uring_buf_reg lending{};
  lending.ring_addr = reinterpret_cast<uint64_t>(lent_);
  lending.ring_entries = buffer_count;
  lending.bgid = buffer_group;
  if (io_uring_register_buf_ring(&ring_, &lending, 0) != 0) return status::not_supported;  // before 5.19
  io_uring_sync_cancel_reg probe{};
  probe.addr = ~uint64_t{0};
  probe.timeout = {-1, -1};
  int const probed = io_uring_register_sync_cancel(&ring_, &probe);  // from 6.0, as is multishot receive
  if (probed != 0 && probed != -ENOENT) return status::not_supported;
  io_uring_buf_ring_init(lent_);
  for (unsigned i = 0; i < buffer_count; i++)
    io_uring_buf_ring_add(lent_, buffer_at(i), unsigned(buffer_size_), uint16_t(i), buffer_count - 1, int(i));
  io_uring_buf_ring_advance(lent_, buffer_count);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  bool const good = epoll_ctl(poll_, EPOLL_CTL_ADD, event_, &event) == 0 && epoll_ctl(poll_, EPOLL_CTL_ADD, ring_.ring_fd, &event) == 0;
  return good ? status::ok : socket_status(errno);
}

uring_stream_set::~uring_stream_set() {
  // The kernel lets go of sockets and memory only when no request has them.
  if (listener_ >= 0) shutdown(listener_, SHUT_RDWR);
  if (has_ring_) cancel_now(0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  for (connection const &each : connections_)
    if (each.socket >= 0) ::close(each.socket);
  if (has_ring_) io_uring_queue_exit(&ring_);
  if (lent_ != nullptr) munmap(lent_, buffer_count * sizeof(io_uring_buf));
  if (buffers_ != nullptr) munmap(buffers_, buffer_count * buffer_size_);
  for (int const descriptor : {listener_, event_, poll_})
    if (descriptor >= 0) ::close(descriptor);
}

// When it returns the kernel no longer has them.
void uring_stream_set::cancel_now(uint64_t data, unsigned flags) {
  io_uring_submit(&ring_);
  io_uring_sync_cancel_reg what{};
  what.addr = data;
  what.flags = flags;
  // One that runs at this moment is waited for; the kernel may miss its end, so it is asked again and again.
  what.timeout = {0, cancel_wait_ns};
  for (int i = 0; i < cancel_count_max && io_uring_register_sync_cancel(&ring_, &what) == -ETIME; i++) {
  }
}

result<socket_address> uring_stream_set::listen(const socket_address &at) {
  socket_address bound = at;
  status why = status::ok;
  listener_ = socket_listen(bound, why);
  if (listener_ < 0) return why;
  be_blocking(listener_);
  arm_accept();
  io_uring_submit(&ring_);
  return bound;
}

result<stream_id> uring_stream_set::connect(const socket_address &to, const socket_address &from, uint64_t word) {
  status why = status::ok;
  int const socket = socket_connect(to, from, options_, why);
  if (socket < 0) return why;
  return add(socket, word, true);
}

result<stream_id> uring_stream_set::adopt(int socket, uint64_t word) {
  socket_prepare(socket, options_);
  return add(socket, word, false);
}

result<stream_id> uring_stream_set::add(int socket, uint64_t word, bool is_connecting) {
  if (free_.empty() && connections_.size() >= options_.connection_count_max) {
    ::close(socket);
    return fail(status::too_many_files, "more than %u connections", options_.connection_count_max);
  }
  be_blocking(socket);
  if (free_.empty()) {
    free_.push_back(uint32_t(connections_.size()));
    connections_.emplace_back();
  }
  uint32_t const index = free_.back();
  free_.pop_back();
  uint32_t const generation = connections_[index].generation;
  connections_[index] = {.socket = socket, .generation = generation, .word = word, .is_connecting = is_connecting};
  stream_id const id = uint64_t{generation} << 32 | index;
  if (look_again_ns_ == 0) look_again_ns_ = monotonic_clock().now_ns() + patience_interval_ns(options_);
  if (is_connecting) {
    arm_room(connections_[index], id);
  } else {
    auto *const submission = entry();
    io_uring_prep_recv_multishot(submission, socket, nullptr, 0, 0);
    submission->flags |= IOSQE_BUFFER_SELECT;
    submission->buf_group = buffer_group;
    io_uring_sqe_set_data64(submission, number(request::shared, id));
    connections_[index].now = receiving::shared;
  }
  io_uring_submit(&ring_);
  return id;
}

// A full queue goes to the kernel first.
io_uring_sqe *uring_stream_set::entry() {
  io_uring_sqe *got = io_uring_get_sqe(&ring_);
  while (got == nullptr) {
    io_uring_submit(&ring_);
    got = io_uring_get_sqe(&ring_);
  }
  return got;
}

void uring_stream_set::arm_accept() {
  auto *const submission = entry();
  io_uring_prep_multishot_accept(submission, listener_, nullptr, nullptr, SOCK_CLOEXEC);
  io_uring_sqe_set_data64(submission, number(request::accept, 0));
}

void uring_stream_set::arm_room(connection &of, stream_id id) {
  auto *const submission = entry();
  io_uring_prep_poll_add(submission, of.socket, POLLOUT);
  io_uring_sqe_set_data64(submission, number(request::room, id));
  of.wants_room = true;
}

result<size_t> uring_stream_set::send(stream_id id, std::span<const iovec> parts, send_mode, bool *held) {
  if (held != nullptr) *held = false;
  connection *const to = find(id);
  if (to == nullptr || to->is_failed) return status::peer_lost;
  if (to->is_connecting) return size_t{0};
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts.data());
  message.msg_iovlen = parts.size();
  // The call for several parts costs the kernel a tenth of a microsecond more.
  ssize_t const sent = parts.size() == 1 ? ::send(to->socket, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                                         : sendmsg(to->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
    to->is_failed = true;  // what it has sent before is still received: then it ends
    wake();
    return status::peer_lost;
  }
  size_t size = 0;
  for (iovec const &part : parts) size += part.iov_len;
  size_t const taken = sent < 0 ? 0 : size_t(sent);
  if (taken < size && !to->wants_room) {
    arm_room(*to, id);
    io_uring_submit(&ring_);
  }
  return taken;
}

// One that receives into the handler's memory is waited for; others that wait end with the shutdown.
void uring_stream_set::forget(connection &what, stream_id id) {
  if (what.now == receiving::direct) cancel_now(number(request::direct, id), 0);
  if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);  // or a request would meet whoever gets the descriptor next
  shutdown(what.socket, SHUT_RDWR);
  ::close(what.socket);
  what.socket = -1;
  what.now = receiving::nothing;
  what.generation = (what.generation + 1) & generation_mask;
  free_.push_back(uint32_t(id));
}

void uring_stream_set::end(connection &what, stream_id id, status why) {
  uint64_t const word = what.word;
  forget(what, id);
  handler_->ended(word, why);
}

size_t uring_stream_set::look_for_lost() {
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

size_t uring_stream_set::drive() {
  size_t count = 0;
  std::array<io_uring_cqe *, batch_count_max> news;
  unsigned const found = io_uring_peek_batch_cqe(&ring_, news.data(), unsigned(news.size()));
  for (unsigned i = 0; i < found; i++) {
    // Given back first: a handler may submit, and the kernel may need the room.
    uint64_t const data = io_uring_cqe_get_data64(news[i]);
    int const value = news[i]->res;
    unsigned const flags = news[i]->flags;
    io_uring_cq_advance(&ring_, 1);
    count += handle(data, value, flags);
  }
  if (accept_again_ns_ != 0 && monotonic_clock().now_ns() >= accept_again_ns_) {
    accept_again_ns_ = 0;
    arm_accept();
  }
  if (look_again_ns_ != 0) count += look_for_lost();
  if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);
  return count;
}

size_t uring_stream_set::handle(uint64_t data, int value, unsigned flags) {
  auto const what = request(data >> request_shift);
  stream_id const id = data & ((uint64_t{1} << request_shift) - 1);
  if (what == request::accept) return handle_accept(value, flags);
  connection *const of = find(id);
  size_t count = 0;
  if (of != nullptr) {
    if (what == request::room) return handle_room(*of, id);
    if (what == request::direct) return handle_direct(id, value);
    if (what == request::shared) count = handle_shared(id, value, flags);
  }
  if ((flags & IORING_CQE_F_BUFFER) != 0) give_back(flags >> IORING_CQE_BUFFER_SHIFT);
  return count;
}

size_t uring_stream_set::handle_accept(int value, unsigned flags) {
  bool const is_short = value == -EMFILE || value == -ENFILE || value == -ENOBUFS || value == -ENOMEM;
  if (is_short) {
    log(log_level::error, "no connection can be accepted: %s (see ulimit -n); trying again in 0.1 s",
        value == -EMFILE ? "this process has too many files open" : "the system is short of files or memory");
    accept_again_ns_ = monotonic_clock().now_ns() + accept_pause_ns;
  } else if ((flags & IORING_CQE_F_MORE) == 0 && value != -EINVAL) {
    arm_accept();
  }
  if (value < 0) return 0;
  socket_prepare(value, options_);
  auto const id = add(value, 0, false);
  if (!id.ok()) {
    log(log_level::error, "a connection is turned away: there are %u already", options_.connection_count_max);
    return 0;
  }
  stream_id const made = result<stream_id>{id}.value();
  uint64_t const word = handler_->accepted(made);
  if (connection *const found = find(made); found != nullptr) found->word = word;
  return 1;
}

size_t uring_stream_set::handle_room(connection &of, stream_id id) {
  of.wants_room = false;
  if (!of.is_connecting) {
    handler_->writable(of.word);
    return 1;
  }
  status const why = socket_error(of.socket);
  pollfd look{.fd = of.socket, .events = POLLOUT, .revents = 0};
  bool const is_settled = poll(&look, 1, 0) == 1;
  if (why == status::ok && !is_settled) return arm_room(of, id), 0;  // its thread ended, not the connect
  if (why != status::ok || (look.revents & (POLLERR | POLLHUP)) != 0) {
    end(of, id, why == status::ok ? status::peer_lost : why);
    return 1;
  }
  of.is_connecting = false;
  socket_suit_node(of.socket);
  handler_->connected(of.word);
  size_t count = 1;
  receive_on(id, count);
  return count;
}

size_t uring_stream_set::handle_shared(stream_id id, int value, unsigned flags) {
  connection &of = *find(id);
  if ((flags & IORING_CQE_F_MORE) == 0) of.now = receiving::nothing;
  size_t count = 0;
  if (value > 0) {
    show(id, {buffer_at(flags >> IORING_CQE_BUFFER_SHIFT), size_t(value)}, count);
  } else if (value != -ENOBUFS && value != -ECANCELED && value != -EINTR && value != -EAGAIN) {
    end(of, id, value == 0 ? status::peer_lost : socket_status(-value));
    return 1;
  }
  connection *const still = find(id);
  if (still == nullptr) return count;
  if (still->now == receiving::nothing) {
    receive_on(id, count);
  } else if (still->now == receiving::shared && handler_->landing(still->word).size() >= direct_size_min) {
    stop_shared(*still, id);
  }
  return count;
}

// What is in the buffers already comes before what is then received directly: its completions come first.
void uring_stream_set::stop_shared(connection &of, stream_id id) {
  auto *const submission = entry();
  io_uring_prep_cancel64(submission, number(request::shared, id), 0);
  io_uring_sqe_set_data64(submission, number(request::ignored, 0));
  of.now = receiving::stopping;
}

size_t uring_stream_set::handle_direct(stream_id id, int value) {
  connection &of = *find(id);
  of.now = receiving::nothing;
  size_t count = 1;
  if (value > 0) {
    handler_->landed(of.word, size_t(value));
  } else if (value != -ECANCELED && value != -EINTR && value != -EAGAIN) {
    end(of, id, value == 0 ? status::peer_lost : socket_status(-value));
    return 1;
  }
  if (connection *const still = find(id); still != nullptr) receive_on(id, count);
  return count;
}

// Nothing is armed for it: take what is there, if there is a large place for it, and arm.
void uring_stream_set::receive_on(stream_id id, size_t &count) {
  for (uint64_t received = 0;;) {
    connection *const of = find(id);
    if (of == nullptr || of->now != receiving::nothing) return;
    auto const target = handler_->landing(of->word);
    bool const is_direct = target.size() >= direct_size_min;
    if (is_direct && received < share_size) {
      ssize_t const size = recv(of->socket, target.data(), target.size(), MSG_DONTWAIT);
      if (size > 0) {
        received += uint64_t(size);
        count++;
        handler_->landed(of->word, size_t(size));
        continue;
      }
      if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        count++;
        return end(*of, id, size == 0 ? status::peer_lost : socket_status(errno));
      }
    }
    auto const what = is_direct ? request::direct : request::shared;
    auto *const submission = entry();
    if (is_direct) {
      io_uring_prep_recv(submission, of->socket, target.data(), target.size(), 0);
    } else {
      io_uring_prep_recv_multishot(submission, of->socket, nullptr, 0, 0);
      submission->flags |= IOSQE_BUFFER_SELECT;
      submission->buf_group = buffer_group;
    }
    io_uring_sqe_set_data64(submission, number(what, id));
    of->now = is_direct ? receiving::direct : receiving::shared;
    return;
  }
}

void uring_stream_set::show(stream_id id, std::span<const std::byte> bytes, size_t &count) {
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
}

void uring_stream_set::give_back(unsigned buffer) {
  io_uring_buf_ring_add(lent_, buffer_at(buffer), unsigned(buffer_size_), uint16_t(buffer), buffer_count - 1, 0);
  io_uring_buf_ring_advance(lent_, 1);
}

status uring_stream_set::wait(uint64_t deadline_ns) {
  waiters_.fetch_add(1);
  uint64_t const asked_ns = deadline_ns;
  for (uint64_t const own_ns : {accept_again_ns_.load(), look_again_ns_.load()})
    if (own_ns != 0) deadline_ns = std::min(deadline_ns, own_ns);
  bool has_come = false;
  for (;;) {
    uint64_t const now_ns = monotonic_clock().now_ns();
    uint64_t const rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    timespec const rest{time_t(rest_ns / 1'000'000'000), long(rest_ns % 1'000'000'000)};
    epoll_event event;
    int const found = epoll_pwait2(poll_, &event, 1, deadline_ns == ~uint64_t{0} ? nullptr : &rest, nullptr);
    has_come = found > 0 || deadline_ns < asked_ns;  // its own deadlines are something to drive for
    if (found >= 0 || errno != EINTR) break;
  }
  // Whoever leaves last takes the wake-up with it, so that all who slept have seen it.
  if (waiters_.fetch_sub(1) == 1) {
    uint64_t value = 0;
    (void)!read(event_, &value, sizeof value);
  }
  return has_come ? status::ok : status::timed_out;
}

}  // namespace

result<std::unique_ptr<stream_set>> uring_stream_set_create(const stream_set_options &options) {
  auto made = std::make_unique<uring_stream_set>(options);
  status const started = made->start();
  if (started != status::ok) return fail(started, "no io_uring for connections: the kernel is older than 6.0, or refuses it");
  return std::unique_ptr<stream_set>{std::move(made)};
}

}  // namespace tanada::port
