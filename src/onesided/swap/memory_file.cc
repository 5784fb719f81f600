// Reading, writing and dropping pages of a file, with system calls.
#include "onesided/swap/memory_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::onesided::swap {
namespace {

status system_error(const char *operation, page_run pages) {
  int const error = errno;
  return fail(status{-error},
              "{} of {} pages of swappable memory from page {} on: {}",
              operation,
              pages.count,
              pages.first,
              strerror(error));
}

// move(done) returns what pread or pwrite of the rest returns.
template <class Move>
status move_all(const char *operation, page_run pages, Move &&move) {
  for (uint64_t done = 0; done < pages.size();) {
    ssize_t const moved = move(done);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved == 0)
      errno = EIO;
    if (moved <= 0)
      return system_error(operation, pages);
    done += uint64_t(moved);
  }
  return status::ok;
}

}  // namespace

status memory_file::read(page_run pages, std::byte *target) const {
  TND_ASSERT(pages.end() <= count_);
  return move_all("reading", pages, [&](uint64_t done) {
    return pread(
        descriptor_, target + done, pages.size() - done, off_t(offset_ + pages.offset() + done));
  });
}

status memory_file::write(page_run pages, const std::byte *source) const {
  TND_ASSERT(pages.end() <= count_);
  return move_all("writing", pages, [&](uint64_t done) {
    return pwrite(
        descriptor_, source + done, pages.size() - done, off_t(offset_ + pages.offset() + done));
  });
}

status memory_file::drop(page_run pages) const {
  TND_ASSERT(pages.end() <= count_);
  while (fallocate(descriptor_,
                   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   off_t(offset_ + pages.offset()),
                   off_t(pages.size())) != 0) {
    if (errno != EINTR)
      return system_error("dropping", pages);
  }
  return status::ok;
}

status memory_file::for_each_present(const std::function<void(page_run)> &f) const {
  uint64_t const end = offset_ + uint64_t(count_) * page_size;
  for (uint64_t position = offset_; position < end;) {
    off_t const data = lseek(descriptor_, off_t(position), SEEK_DATA);
    if (data < 0 && errno == ENXIO)
      break;
    if (data < 0)
      return system_error("scanning", {0, count_});
    if (uint64_t(data) >= end)
      break;
    off_t const hole = lseek(descriptor_, data, SEEK_HOLE);
    if (hole < 0)
      return system_error("scanning", {0, count_});
    uint64_t const begin = std::max(position, uint64_t(data));
    position = std::min(end, uint64_t(hole));
    f(pages_of(begin - offset_, position - begin));
  }
  return status::ok;
}

}  // namespace tanada::onesided::swap
