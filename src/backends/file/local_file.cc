#include "backends/file/local_file.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "backends/file/io_vectors.hpp"
#include "seams/store/errno_status.hpp"

namespace tanada::port {
namespace {

// cachestat(2) of Linux 6.5 counts cached pages without touching any; before it, RWF_NOWAIT tells
// the same by failing, at the price of a little readahead.
bool first_page_cached(int fd, uint64_t offset) {
  constexpr long cachestat_number = 451;
  struct {
    uint64_t offset, size;
  } const range{offset, direct_alignment};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (syscall(cachestat_number, fd, &range, &counts, 0) == 0)
    return counts.cached != 0;
  std::byte one;
  iovec const vector{&one, 1};
  return preadv2(fd, &vector, 1, off_t(offset), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

bool can_be_direct(const local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
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

struct move_kind {
  ssize_t (*call)(int fd, const iovec *vectors, int count, off_t offset);
  bool direct;
  status at_end;  // what it is when nothing moves
};

status move(local_file &file, move_kind how, uint64_t offset, std::span<const store_buffer> buffers,
            uint64_t &size) {
  io_vectors left{buffers};
  while (!left.done()) {
    int const fd = how.direct ? file.direct_fd : file.fd;
    ssize_t const moved = how.call(fd, left.next(), int(left.next_count()), off_t(offset + size));
    if (moved > 0) {
      left.advance(size_t(moved));
      size += uint64_t(moved);
      how.direct = how.direct && size % direct_alignment == 0;
    } else if (moved == 0) {
      return how.at_end;
    } else if (how.direct && errno == EINVAL) {
      file.direct_refused.store(true, std::memory_order_relaxed);
      how.direct = false;
    } else if (errno != EINTR) {
      return errno_status(errno);
    }
  }
  return status::ok;
}

}  // namespace

local_file::~local_file() {
  if (device_files != nullptr)
    device_files->close(device_file);
  if (direct_fd >= 0)
    ::close(direct_fd);
  if (fd >= 0)
    ::close(fd);
}

void local_reader::prepare(local_file &file, uint64_t size) const {
  file.in_memory = lives_in_memory(file.fd);
  open_direct(file, size);
  if (!file.writable)
    open_on_device(file);
}

// Opened with the file and not at the first read that wants it: a post must not open anything.
void local_reader::open_direct(local_file &file, uint64_t size) const {
  if (direct_ == file_direct::off)
    return;
  if (direct_ == file_direct::automatic && size < direct_size_min && !file.asks_direct)
    return;
  int const access = file.asks_direct && file.writable ? O_RDWR : O_RDONLY;
  std::string const path = "/proc/self/fd/" + std::to_string(file.fd);
  do {
    file.direct_fd = ::open(path.c_str(), access | O_DIRECT | O_CLOEXEC);
  } while (file.direct_fd < 0 && errno == EINTR);
}

bool local_reader::reads_direct(const local_file &file, uint64_t offset,
                                std::span<const store_buffer> buffers) const {
  uint64_t size = 0;
  if (!can_be_direct(file, offset, buffers, size))
    return false;
  if (direct_ == file_direct::on || file.asks_direct)
    return true;
  return size >= direct_size_min && !first_page_cached(file.fd, offset);
}

bool local_reader::writes_direct(const local_file &file, uint64_t offset,
                                 std::span<const store_buffer> buffers) const {
  uint64_t size = 0;
  return file.asks_direct && can_be_direct(file, offset, buffers, size);
}

status local_reader::read(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
                          uint64_t &size) const {
  if (on_device(buffers))
    return read_to_device(file, offset, buffers, size);
  return move(file, {preadv, reads_direct(file, offset, buffers), status::ok}, offset, buffers,
              size);
}

status local_reader::write(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
                           uint64_t &size) const {
  return move(file, {pwritev, writes_direct(file, offset, buffers), status::io}, offset, buffers,
              size);
}

}  // namespace tanada::port
