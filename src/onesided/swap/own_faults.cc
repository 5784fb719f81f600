#include "onesided/swap/own_faults.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::comex::swap {
namespace {

// Pages in no page table, whether they are in memory or not. The system takes modes that are no
// part of those before.
constexpr uint64_t touches = UFFDIO_REGISTER_MODE_MISSING | (uint64_t{1} << 2);

}  // namespace

own_faults::own_faults(written_pages &written, std::span<std::byte> memory, page_bits stored,
                       std::function<status(uint32_t)> touched, std::function<void()> failed)
    : written_{written},
      faults_{written.touches()},
      memory_{memory},
      stored_{stored},
      touched_{std::move(touched)},
      failed_{std::move(failed)} {}

own_faults::~own_faults() {
  is_over_.store(true);
  bell_.wake();
  if (thread_.joinable())
    thread_.join();
  give_all();
}

void own_faults::wake(page_run pages) {
  uffdio_range range{reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  (void)ioctl(faults_, UFFDIO_WAKE, &range);
}

// Those who wait go on.
void own_faults::unwatch() {
  uffdio_range all{reinterpret_cast<uintptr_t>(memory_.data()),
                   memory_.size() / page_size * page_size};
  (void)ioctl(faults_, UFFDIO_UNREGISTER, &all);
}

// Who has touched something since it was watched last does so again.
bool own_faults::watch() {
  if (!written_.is_exact())
    return false;
  if (!thread_.joinable()) {
    if (events_.ready() != status::ok ||
        events_.add(faults_, 0, {.to_receive = true}) != status::ok)
      return false;
    (void)events_.add(bell_.descriptor(), 1, {.to_receive = true});  // it looks by itself, too
    port::signals_blocked const blocked;
    thread_ = std::thread{[this] {
      run();
    }};
  }
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()),
                 memory_.size() / page_size * page_size};
  range.mode = touches;
  if (!is_watching_ && ioctl(faults_, UFFDIO_REGISTER, &range) != 0) {
    unwatch();  // a part may be watched, and nobody would answer
    (void)written_.watch_writes();
    return false;
  }
  is_watching_ = true;
  wake({0, stored_.page_count()});
  return true;
}

status own_faults::give(uint32_t page) {
  uintptr_t const at = reinterpret_cast<uintptr_t>(memory_.data()) + page_run{page, 1}.offset();
  uffdio_continue there{};
  there.range = {at, page_size};
  int code = 0;
  do
    code = ioctl(faults_, UFFDIO_CONTINUE, &there);
  while (code != 0 && errno == EAGAIN);
  if (code != 0 && errno == EFAULT) {  // it was never touched
    uffdio_zeropage fresh{};
    fresh.range = {at, page_size};
    do
      code = ioctl(faults_, UFFDIO_ZEROPAGE, &fresh);
    while (code != 0 && errno == EAGAIN);
  }
  if (code == 0)
    return status::ok;
  if (errno != EEXIST) {
    int const number = errno;
    return fail(status{-number},
                "page %u of swappable memory, which its process has touched, cannot be there: %s",
                page, std::strerror(number));
  }
  wake({page, 1});  // somebody else has it
  return status::ok;
}

void own_faults::take(uint32_t page) {
  (void)madvise(memory_.data() + page_run{page, 1}.offset(), page_size, MADV_DONTNEED);
}

void own_faults::arm() {
  if (!is_watching_)
    return written_.arm(stored_, stored_.page_count());
  if (!written_.watch_writes()) {
    unwatch();
    return stored_.clear({0, stored_.page_count()});
  }
  written_.arm_among_others(stored_, stored_.page_count());
}

void own_faults::give_all() {
  if (std::exchange(is_watching_, false))
    wake({0, stored_.page_count()});
}

void own_faults::run() {
  std::array<uint64_t, 2> ready;
  constexpr int look_ms = 100;
  while (!is_over_.load()) {
    if (events_.wait(ready, look_ms) == 0)
      continue;
    uffd_msg said{};
    if (read(faults_, &said, sizeof said) != ssize_t(sizeof said) ||
        said.event != UFFD_EVENT_PAGEFAULT)
      continue;
    auto const offset =
        uint64_t(said.arg.pagefault.address) - reinterpret_cast<uintptr_t>(memory_.data());
    if (offset >= memory_.size())
      continue;
    if (touched_(uint32_t(offset / page_size)) != status::ok)
      failed_();
  }
}

}  // namespace tanada::comex::swap
