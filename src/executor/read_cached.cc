// Reads the part of a file that is in the page cache.
#include <sys/uio.h>

#include <cerrno>

#include <tanada/device/detail/simt/host/executor.hpp>

namespace tanada::simt::host {

u64 read_cached(int descriptor, void *target, u64 size, u64 offset) noexcept {
  u64 done = 0;
  while (done < size) {
    iovec const rest{static_cast<u8 *>(target) + done, size - done};
    ssize_t const moved = preadv2(descriptor, &rest, 1, off_t(offset + done), RWF_NOWAIT);
    if (moved > 0)
      done += u64(moved);
    else if (moved == 0 || errno != EINTR)
      break;
  }
  return done;
}

}  // namespace tanada::simt::host
