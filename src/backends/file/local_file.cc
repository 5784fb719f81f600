// backends/file/local_file.cc: reads and writes of a local file, with O_DIRECT where that is
// possible.
#include "backends/file/local_file.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "backends/file/io_vectors.hpp"
#include "core/base/assert.hpp"
#include "seams/store/errno_status.hpp"

namespace tanada::backends {
namespace {

// cachestat(2) of Linux 6.5 counts cached pages without touching any. Older kernels use RWF_NOWAIT,
// which fails for an uncached page at the cost of a little read-ahead.
bool is_first_page_cached(int fd, uint64_t offset) {
  constexpr long cachestat_number = 451;
  struct {
    uint64_t offset, size;
  } const range{offset, direct_alignment};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (syscall(cachestat_number, fd, &range, &counts, 0) == 0)
    return counts.cached != 0;
  std::byte byte;
  iovec const vector{&byte, 1};
  return preadv2(fd, &vector, 1, off_t(offset), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

bool can_use_direct(const local_file &file,
                    uint64_t offset,
                    std::span<const seams::store_buffer> buffers,
                    uint64_t &size) {
  if (file.direct_fd < 0 || file.direct_refused.load(std::memory_order_relaxed))
    return false;
  uint64_t bits = offset;
  for (const auto &buffer : buffers) {
    bits |= uint64_t(uintptr_t(buffer.addr)) | buffer.size;
    size += buffer.size;
  }
  return bits % direct_alignment == 0;
}

// Frames of a cache are read optimistically under a version check, also while a call moves their
// bytes. ThreadSanitizer would report that for preadv and pwritev, but it does not intercept
// syscall().
#if defined(TND_TSAN)
ssize_t read_vectors(int fd, const iovec *vectors, int count, off_t offset) {
  return syscall(SYS_preadv, fd, vectors, count, offset, 0);
}
ssize_t write_vectors(int fd, const iovec *vectors, int count, off_t offset) {
  return syscall(SYS_pwritev, fd, vectors, count, offset, 0);
}
#else
constexpr auto read_vectors = preadv;
constexpr auto write_vectors = pwritev;
#endif

struct move_kind {
  ssize_t (*call)(int fd, const iovec *vectors, int count, off_t offset);
  bool direct;
  status end_status;  // the status when a call moves no bytes
};

status move(local_file &file,
            move_kind method,
            uint64_t offset,
            std::span<const seams::store_buffer> buffers,
            uint64_t &size) {
  TND_ASSERT(!method.direct || file.direct_fd >= 0);
  io_vectors remaining{buffers};
  while (!remaining.done()) {
    int const fd = method.direct ? file.direct_fd : file.fd;
    ssize_t const moved =
        method.call(fd, remaining.next(), int(remaining.next_count()), off_t(offset + size));
    if (moved > 0) {
      remaining.advance(size_t(moved));
      size += uint64_t(moved);
      method.direct = method.direct && size % direct_alignment == 0;
    } else if (moved == 0) {
      return method.end_status;
    } else if (method.direct && errno == EINVAL) {
      file.direct_refused.store(true, std::memory_order_relaxed);
      method.direct = false;
    } else if (errno != EINTR) {
      return seams::errno_status(errno);
    }
  }
  return status::ok;
}

}  // namespace

int local_file::thread_descriptor() {
  static std::atomic<size_t> thread_count{0};
  thread_local size_t const thread = thread_count.fetch_add(1, std::memory_order_relaxed);
  std::atomic<int> &entry = thread_descriptors_[thread % thread_descriptor_count];
  if (int const opened = entry.load(std::memory_order_acquire); opened != 0)
    return opened - 1;
  std::string const path = "/proc/self/fd/" + std::to_string(fd);
  int const reopened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int expected = 0;
  if (reopened >= 0 &&
      entry.compare_exchange_strong(expected, reopened + 1, std::memory_order_acq_rel))
    return reopened;
  if (reopened >= 0)
    ::close(reopened);
  return expected != 0 ? expected - 1 : fd;
}

bool read_cached(const local_file &file, int fd, seams::store_read &read) {
  int const flags = file.in_memory ? 0 : RWF_NOWAIT;
  size_t moved = 0;
  while (moved < read.buffer.size) {
    iovec const vector{read.buffer.addr + moved, read.buffer.size - moved};
    ssize_t const got = preadv2(fd, &vector, 1, off_t(read.offset + moved), flags);
    if (got < 0)
      return false;
    if (got == 0)
      break;
    moved += size_t(got);
  }
  read.size = moved;
  return true;
}

local_file::~local_file() {
  for (std::atomic<int> const &entry : thread_descriptors_)
    if (int const opened = entry.load(std::memory_order_acquire); opened != 0)
      ::close(opened - 1);
  if (device_files != nullptr)
    device_files->close(device_file);
  if (direct_fd >= 0)
    ::close(direct_fd);
  if (fd >= 0)
    ::close(fd);
}

void local_reader::prepare(local_file &file, uint64_t size) const {
  file.in_memory = is_in_memory_file_system(file.fd);
  open_direct(file, size);
  if (!file.writable)
    open_on_device(file);
}

// Opened together with the file and not at the first direct read, because a post must not open
// files.
void local_reader::open_direct(local_file &file, uint64_t size) const {
  if (direct_ == file_direct::off)
    return;
  if (direct_ == file_direct::automatic && size < direct_size_min && !file.is_direct_requested)
    return;
  int const access = file.is_direct_requested && file.writable ? O_RDWR : O_RDONLY;
  std::string const path = "/proc/self/fd/" + std::to_string(file.fd);
  do {
    file.direct_fd = ::open(path.c_str(), access | O_DIRECT | O_CLOEXEC);
  } while (file.direct_fd < 0 && errno == EINTR);
}

bool local_reader::reads_direct(const local_file &file,
                                uint64_t offset,
                                std::span<const seams::store_buffer> buffers) const {
  uint64_t size = 0;
  if (!can_use_direct(file, offset, buffers, size))
    return false;
  if (direct_ == file_direct::on || file.is_direct_requested)
    return true;
  return size >= direct_size_min && !is_first_page_cached(file.fd, offset);
}

bool local_reader::writes_direct(const local_file &file,
                                 uint64_t offset,
                                 std::span<const seams::store_buffer> buffers) const {
  uint64_t size = 0;
  return file.is_direct_requested && can_use_direct(file, offset, buffers, size);
}

status local_reader::read(local_file &file,
                          uint64_t offset,
                          std::span<const seams::store_buffer> buffers,
                          uint64_t &size) const {
  if (on_device(buffers))
    return read_to_device(file, offset, buffers, size);
  return move(
      file, {read_vectors, reads_direct(file, offset, buffers), status::ok}, offset, buffers, size);
}

status local_reader::write(local_file &file,
                           uint64_t offset,
                           std::span<const seams::store_buffer> buffers,
                           uint64_t &size) const {
  return move(file,
              {write_vectors, writes_direct(file, offset, buffers), status::io},
              offset,
              buffers,
              size);
}

}  // namespace tanada::backends
