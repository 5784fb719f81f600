// A demand-page handler based on userfaultfd: it watches faults, grants pages and revokes them.
#include "onesided/swap/userfault_pager.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::onesided::swap {
namespace {

// Report pages without a page table entry, whether they are in memory or not. The kernel accepts a
// mode that does not include the previous one.
constexpr uint64_t fault_modes = UFFDIO_REGISTER_MODE_MISSING | (uint64_t{1} << 2);

}  // namespace

userfault_pager::userfault_pager(written_pages &written,
                                 std::span<std::byte> memory,
                                 page_bits stored,
                                 std::function<status(uint32_t)> handle_fault,
                                 std::function<void()> on_failure,
                                 page_bits left_out)
    : written_{written},
      faults_{written.fault_descriptor()},
      memory_{memory},
      stored_{stored},
      left_out_{left_out},
      handle_fault_{std::move(handle_fault)},
      on_failure_{std::move(on_failure)} {
  TND_ASSERT(faults_ >= 0);
  TND_ASSERT(stored.page_count() <= memory.size() / page_size);
}

userfault_pager::~userfault_pager() {
  is_stopping_.store(true);
  stop_waker_.wake();
  if (thread_.joinable())
    thread_.join();
  grant_all();
}

void userfault_pager::wake(page_run pages) {
  TND_ASSERT(pages.end() <= stored_.page_count());
  uffdio_range range{reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  (void)ioctl(faults_, UFFDIO_WAKE, &range);
}

// Waiting threads continue.
void userfault_pager::unwatch() {
  uffdio_range range{reinterpret_cast<uintptr_t>(memory_.data()),
                     memory_.size() / page_size * page_size};
  (void)ioctl(faults_, UFFDIO_UNREGISTER, &range);
}

bool userfault_pager::start() {
  if (!written_.is_exact())
    return false;
  if (thread_.joinable())
    return true;
  if (events_.ready() != status::ok || events_.add(faults_, 0, {.to_receive = true}) != status::ok)
    return false;
  // A failure is harmless, because the thread also polls.
  (void)events_.add(stop_waker_.descriptor(), 1, {.to_receive = true});
  seams::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    run();
  }};
  return true;
}

bool userfault_pager::can_leave_out() {
  return start();
}

void userfault_pager::resume(page_run pages) {
  wake(pages);
}

// A thread that has touched a page since the last watch faults again.
bool userfault_pager::watch() {
  if (!start())
    return false;
  watched_left_out_.clear();
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()),
                 memory_.size() / page_size * page_size};
  range.mode = fault_modes;
  if (!is_watching_ && ioctl(faults_, UFFDIO_REGISTER, &range) != 0) {
    unwatch();  // a part may be registered, and no thread would handle its faults
    (void)written_.watch_writes();
    return false;
  }
  is_watching_ = true;
  wake({0, stored_.page_count()});
  return true;
}

status userfault_pager::grant(uint32_t page) {
  uintptr_t const address =
      reinterpret_cast<uintptr_t>(memory_.data()) + page_run{page, 1}.offset();
  uffdio_continue map_request{};
  map_request.range = {address, page_size};
  int code = 0;
  do
    code = ioctl(faults_, UFFDIO_CONTINUE, &map_request);
  while (code != 0 && errno == EAGAIN);
  if (code != 0 && errno == EFAULT) {  // it was never touched
    uffdio_zeropage zero_request{};
    zero_request.range = {address, page_size};
    do
      code = ioctl(faults_, UFFDIO_ZEROPAGE, &zero_request);
    while (code != 0 && errno == EAGAIN);
  }
  if (code == 0)
    return status::ok;
  if (errno != EEXIST) {
    int const error = errno;
    return fail(status{-error},
                "page {} of swappable memory, which the process has touched, cannot be mapped: {}",
                page,
                std::strerror(error));
  }
  wake({page, 1});  // another thread has mapped it
  return status::ok;
}

void userfault_pager::revoke(uint32_t page) {
  TND_ASSERT(page < stored_.page_count());
  page_run const pages{page, 1};
  (void)madvise(memory_.data() + pages.offset(), pages.size(), MADV_DONTNEED);
}

// Without these faults the process would find zeros in the pages, so it must not go on.
void userfault_pager::watch_left_out() {
  if (!is_watching_) {
    for (page_run const pages : watched_left_out_)
      written_.unwatch_touches(pages);
  }
  watched_left_out_.clear();
  if (left_out_.page_count() == 0)
    return;
  left_out_.for_each_run(true, {0, left_out_.page_count()}, [&](page_run pages) {
    watched_left_out_.push_back(pages);
    if (written_.watch_touches(pages))
      return;
    (void)fail(status{-errno},
               "touches of {} bytes of swappable memory cannot be watched: {}; set "
               "TND_COMEX_WHOLE=1",
               pages.size(),
               std::strerror(errno));
    on_failure_();
  });
}

void userfault_pager::arm() {
  watch_left_out();
  if (!is_watching_)
    return written_.arm(stored_, stored_.page_count());
  if (!written_.watch_writes()) {
    if (!watched_left_out_.empty())
      on_failure_();
    unwatch();
    return stored_.clear({0, stored_.page_count()});
  }
  written_.arm_among_others(stored_, stored_.page_count());
}

void userfault_pager::grant_all() {
  if (std::exchange(is_watching_, false))
    wake({0, stored_.page_count()});
}

void userfault_pager::run() {
  std::array<uint64_t, 2> ready;
  constexpr int poll_ms = 100;
  while (!is_stopping_.load()) {
    if (events_.wait(ready, poll_ms) == 0)
      continue;
    uffd_msg message{};
    if (read(faults_, &message, sizeof message) != ssize_t(sizeof message) ||
        message.event != UFFD_EVENT_PAGEFAULT)
      continue;
    auto const offset =
        uint64_t(message.arg.pagefault.address) - reinterpret_cast<uintptr_t>(memory_.data());
    if (offset >= memory_.size())
      continue;
    if (handle_fault_(uint32_t(offset / page_size)) != status::ok)
      on_failure_();
  }
}

}  // namespace tanada::onesided::swap
