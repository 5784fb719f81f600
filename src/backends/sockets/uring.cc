#include "backends/sockets/uring.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "backends/sockets/socket_options.hpp"

namespace tanada::port {

namespace {

constexpr unsigned submission_count = 1024, completion_count = 16384;
constexpr unsigned buffer_count = 256;  // a power of two
constexpr long cancel_wait_ns = 100'000;
constexpr int cancel_count_max = 10'000;

void *map(size_t size) {
  void *const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

status uring::start(size_t buffer_size) {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  parameters.cq_entries = completion_count;
  int const made = io_uring_queue_init_params(submission_count, &ring_, &parameters);
  if (made != 0)
    return socket_status(-made);
  has_ring_ = true;
  io_uring_sync_cancel_reg probe{};
  probe.addr = ~uint64_t{0};
  probe.timeout = {-1, -1};
  int const probed =
      io_uring_register_sync_cancel(&ring_, &probe);  // from 6.0, as is multishot receive
  if (probed != 0 && probed != -ENOENT)
    return status::not_supported;
  buffer_size_ = buffer_size;
  return lend_all();
}

status uring::lend_all() {
  lent_ = static_cast<io_uring_buf_ring *>(map(buffer_count * sizeof(io_uring_buf)));
  buffers_ = static_cast<std::byte *>(map(buffer_count * buffer_size_));
  if (lent_ == nullptr || buffers_ == nullptr)
    return status::no_memory;
  io_uring_buf_reg lending{};
  lending.ring_addr = reinterpret_cast<uint64_t>(lent_);
  lending.ring_entries = buffer_count;
  lending.bgid = buffer_group;
  if (io_uring_register_buf_ring(&ring_, &lending, 0) != 0)
    return status::not_supported;  // before 5.19
  io_uring_buf_ring_init(lent_);
  for (unsigned i = 0; i < buffer_count; i++)
    io_uring_buf_ring_add(lent_, buffer_at(i), unsigned(buffer_size_), uint16_t(i),
                          buffer_count - 1, int(i));
  io_uring_buf_ring_advance(lent_, buffer_count);
  return status::ok;
}

uring::~uring() {
  if (has_ring_)
    io_uring_queue_exit(&ring_);
  if (lent_ != nullptr)
    munmap(lent_, buffer_count * sizeof(io_uring_buf));
  if (buffers_ != nullptr)
    munmap(buffers_, buffer_count * buffer_size_);
}

io_uring_sqe *uring::entry() {
  io_uring_sqe *got = io_uring_get_sqe(&ring_);
  while (got == nullptr) {
    io_uring_submit(&ring_);
    got = io_uring_get_sqe(&ring_);
  }
  return got;
}

void uring::cancel_now(uint64_t number, unsigned flags) {
  io_uring_submit(&ring_);
  io_uring_sync_cancel_reg what{};
  what.addr = number;
  what.flags = flags;
  // One that runs at this moment is waited for; the kernel may miss its end, so it is asked again
  // and again.
  what.timeout = {0, cancel_wait_ns};
  for (int i = 0; i < cancel_count_max && io_uring_register_sync_cancel(&ring_, &what) == -ETIME;
       i++) {}
}

void uring::lend(unsigned buffer) {
  io_uring_buf_ring_add(lent_, buffer_at(buffer), unsigned(buffer_size_), uint16_t(buffer),
                        buffer_count - 1, 0);
  io_uring_buf_ring_advance(lent_, 1);
}

}  // namespace tanada::port
