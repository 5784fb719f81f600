#include "port/store/local_file.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "port/store/errno_status.hpp"
#include "port/store/io_vectors.hpp"

namespace tanada::port {
namespace {

// cachestat(2) of Linux 6.5 counts cached pages without touching any; before it, RWF_NOWAIT tells the same by
// failing, at the price of a little readahead.
bool first_page_cached(int fd, uint64_t offset) {
  constexpr long cachestat_number = 451;
  struct {
    uint64_t offset, size;
  } const range{offset, direct_alignment};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (syscall(cachestat_number, fd, &range, &counts, 0) == 0) return counts.cached != 0;
  std::byte one;
  iovec const vector{&one, 1};
  return preadv2(fd, &vector, 1, off_t(offset), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

}  // namespace

local_file::~local_file() {
  if (device_files != nullptr) device_files->close(device_file);
  if (direct_fd >= 0) ::close(direct_fd);
  if (fd >= 0) ::close(fd);
}

void local_reader::prepare(local_file &file, uint64_t size) const {
  file.in_memory = lives_in_memory(file.fd);
  open_direct(file, size);
  if (!file.writable) open_on_device(file);
}

// Opened with the file and not at the first read that wants it: a post must not open anything.
void local_reader::open_direct(local_file &file, uint64_t size) const {
  if (direct_ == file_direct::off || (direct_ == file_direct::automatic && size < direct_size_min)) return;
  std::string const path = "/proc/self/fd/" + std::to_string(file.fd);
  do {
    file.direct_fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  } while (file.direct_fd < 0 && errno == EINTR);
}

bool local_reader::reads_direct(const local_file &file, uint64_t offset,
                                std::span<const store_buffer> buffers) const {
  if (file.direct_fd < 0 || file.direct_refused.load(std::memory_order_relaxed)) return false;
  uint64_t bits = offset, size = 0;
  for (const auto &buffer : buffers) {
    bits |= uint64_t(uintptr_t(buffer.addr)) | buffer.size;
    size += buffer.size;
  }
  if (bits % direct_alignment != 0) return false;
  if (direct_ == file_direct::on) return true;
  return size >= direct_size_min && !first_page_cached(file.fd, offset);
}

status local_reader::read(local_file &file, uint64_t offset, std::span<const store_buffer> buffers,
                          uint64_t &size) const {
  if (on_device(buffers)) return read_to_device(file, offset, buffers, size);
  bool direct = reads_direct(file, offset, buffers);
  io_vectors left{buffers};
  while (!left.done()) {
    int const fd = direct ? file.direct_fd : file.fd;
    ssize_t const moved = preadv(fd, left.next(), int(left.next_count()), off_t(offset + size));
    if (moved > 0) {
      left.advance(size_t(moved));
      size += uint64_t(moved);
      direct = direct && size % direct_alignment == 0;
    } else if (moved == 0) {
      break;
    } else if (direct && errno == EINVAL) {
      file.direct_refused.store(true, std::memory_order_relaxed);
      direct = false;
    } else if (errno != EINTR) {
      return errno_status(errno);
    }
  }
  return status::ok;
}

}  // namespace tanada::port
