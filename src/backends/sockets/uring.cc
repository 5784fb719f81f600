// backends/sockets/uring.cc: an io_uring with a ring of provided buffers.
#include "backends/sockets/uring.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "backends/sockets/socket_options.hpp"
#include "core/base/assert.hpp"

namespace tanada::backends {

namespace {

constexpr unsigned submission_count = 1024;
constexpr unsigned completion_count = 16384;
static_assert(submission_count <= completion_count);
constexpr unsigned buffer_count = 256;
static_assert((buffer_count & (buffer_count - 1)) == 0 && buffer_count <= UINT16_MAX);
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
  int const code = io_uring_queue_init_params(submission_count, &ring_, &parameters);
  if (code != 0)
    return socket_status(-code);
  has_ring_ = true;
  io_uring_sync_cancel_reg probe{};
  probe.addr = ~uint64_t{0};
  probe.timeout = {-1, -1};
  int const probed =
      io_uring_register_sync_cancel(&ring_, &probe);  // since Linux 6.0, as multishot receive
  if (probed != 0 && probed != -ENOENT)
    return status::not_supported;
  buffer_size_ = buffer_size;
  return provide_buffers();
}

status uring::provide_buffers() {
  TND_ASSERT(has_ring_ && buffer_ring_ == nullptr && buffer_size_ != 0);
  buffer_ring_ = static_cast<io_uring_buf_ring *>(map(buffer_count * sizeof(io_uring_buf)));
  buffers_ = static_cast<std::byte *>(map(buffer_count * buffer_size_));
  if (buffer_ring_ == nullptr || buffers_ == nullptr)
    return status::no_memory;
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uint64_t>(buffer_ring_);
  registration.ring_entries = buffer_count;
  registration.bgid = buffer_group;
  if (io_uring_register_buf_ring(&ring_, &registration, 0) != 0)
    return status::not_supported;  // before Linux 5.19
  io_uring_buf_ring_init(buffer_ring_);
  for (unsigned i = 0; i < buffer_count; i++) {
    io_uring_buf_ring_add(
        buffer_ring_, buffer_at(i), unsigned(buffer_size_), uint16_t(i), buffer_count - 1, int(i));
  }
  io_uring_buf_ring_advance(buffer_ring_, buffer_count);
  return status::ok;
}

uring::~uring() {
  if (has_ring_)
    io_uring_queue_exit(&ring_);
  if (buffer_ring_ != nullptr)
    munmap(buffer_ring_, buffer_count * sizeof(io_uring_buf));
  if (buffers_ != nullptr)
    munmap(buffers_, buffer_count * buffer_size_);
}

io_uring_sqe *uring::entry() {
  TND_ASSERT(has_ring_);
  io_uring_sqe *entry_ptr = io_uring_get_sqe(&ring_);
  while (entry_ptr == nullptr) {
    io_uring_submit(&ring_);
    entry_ptr = io_uring_get_sqe(&ring_);
  }
  return entry_ptr;
}

void uring::cancel_now(uint64_t number, unsigned flags) {
  io_uring_submit(&ring_);
  io_uring_sync_cancel_reg request{};
  request.addr = number;
  request.flags = flags;
  // The call waits for a request that is running. The kernel may miss its end, so the cancel is
  // repeated.
  request.timeout = {0, cancel_wait_ns};
  for (int i = 0; i < cancel_count_max && io_uring_register_sync_cancel(&ring_, &request) == -ETIME;
       i++) {}
}

void uring::return_buffer(unsigned buffer) {
  TND_ASSERT(buffer < buffer_count);
  io_uring_buf_ring_add(buffer_ring_,
                        buffer_at(buffer),
                        unsigned(buffer_size_),
                        uint16_t(buffer),
                        buffer_count - 1,
                        0);
  io_uring_buf_ring_advance(buffer_ring_, 1);
}

}  // namespace tanada::backends
