// Write tracking with userfaultfd and PAGEMAP_SCAN, and the choice of blocks that are not tracked.
#include "onesided/swap/written_pages.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

// From Linux 6.7; older systems' headers lack them.
constexpr uint64_t feature_shmem = uint64_t{1} << 12, feature_unpopulated = uint64_t{1} << 13,
                   feature_async = uint64_t{1} << 15;
constexpr uint64_t feature_missing = uint64_t{1} << 5,
                   feature_minor = uint64_t{1} << 10;  // of shared memory
constexpr int user_mode_only =
    1;  // needs no privilege; asynchronous write protection delays no thread, even in system calls

struct scan_region {
  uint64_t begin, end, categories;
};
struct scan_request {
  uint64_t size, flags, begin, end, walk_end, regions, region_count, pages_max;
  uint64_t category_inverted, category_mask, category_anyof, return_mask;
};
static_assert(sizeof(scan_region) == 24 && sizeof(scan_request) == 96);
constexpr unsigned long scan_call = _IOWR('f', 16, scan_request);
constexpr uint64_t category_written = 1 << 1, category_present = 1 << 3;

constexpr uint32_t block_pages = 512;  // the unit of histories: 2 MiB
constexpr uint8_t full_times = 2, skip_count_min = 4, skip_count_max = 16;
constexpr uint32_t unwatched_runs_max =
    8192;  // each run adds two entries to the kernel's list of this process's mappings

// Calls f(page_run of blocks) for the longest runs of blocks below `count` for which
// matches(index).
template <class Predicate, class Function>
void for_each_run(size_t count, Predicate &&matches, Function &&f) {
  for (size_t i = 0; i < count; i++) {
    size_t const first = i;
    while (i < count && matches(i))
      i++;
    if (i > first)
      f(page_run{uint32_t(first), uint32_t(i - first)});
  }
}

}  // namespace

std::unique_ptr<written_pages> written_pages::create(std::span<std::byte> memory) {
  std::unique_ptr<written_pages> created{new written_pages{memory}};
  if (status const code = created->open(); code != status::ok)
    created->disable(code, "userfaultfd");
  return created;
}

written_pages::~written_pages() {
  if (faults_ >= 0)
    close(faults_);
  if (pagemap_ >= 0)
    close(pagemap_);
}

// With privilege, or where the administrator has allowed it, faults in system calls are reported,
// too. Otherwise these calls would fail.
int written_pages::open_faults() {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  auto const enable = [](int descriptor, uint64_t extra_features) {
    uffdio_api request{};
    request.api = UFFD_API;
    request.features = feature_shmem | feature_unpopulated | feature_async | extra_features;
    if (descriptor < 0 || ioctl(descriptor, UFFDIO_API, &request) == 0)
      return descriptor;
    int const code = errno;
    close(descriptor);
    errno = code;
    return -1;
  };
  int faults = enable(int(syscall(SYS_userfaultfd, flags)), feature_missing | feature_minor);
  if (faults < 0) {
    int const device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device >= 0)
      faults = enable(ioctl(device, USERFAULTFD_IOC_NEW, flags), feature_missing | feature_minor);
    if (device >= 0)
      close(device);
  }
  sees_faults_ = faults >= 0;
  return sees_faults_ ? faults : enable(int(syscall(SYS_userfaultfd, flags | user_mode_only)), 0);
}

status written_pages::open() {
  if (seams::page_size() != page_size)
    return status::not_supported;
  auto const system_error = [] {
    return status{-errno};
  };
  faults_ = open_faults();
  if (faults_ < 0)
    return system_error();
  if (!watch_writes())
    return system_error();
  pagemap_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap_ < 0)
    return system_error();
  scan_request request{};
  request.size = sizeof request;
  request.end = reinterpret_cast<uintptr_t>(memory_.data());
  request.begin = request.end;
  request.return_mask = category_written;
  request.category_mask = category_written;
  return ioctl(pagemap_, scan_call, &request) < 0 ? system_error() : status::ok;
}

// Blocks that are not watched stay so. Threads that wait there continue at once, and all pages of
// these blocks count as written in any case.
bool written_pages::watch_writes() noexcept {
  uint32_t const page_count = uint32_t(memory_.size() / page_size),
                 block_count = (page_count + block_pages - 1) / block_pages;
  auto const address = reinterpret_cast<uintptr_t>(memory_.data());
  bool is_complete = true;
  auto const is_unwatched = [&](size_t i) {
    return i < histories_.size() && histories_[i].is_unwatched;
  };
  for_each_run(
      block_count,
      [&](size_t i) { return !is_unwatched(i); },
      [&](page_run blocks) {
        page_run const pages = pages_in(blocks, page_count);
        uffdio_register range{};
        range.range = {address + pages.offset(), pages.size()};
        range.mode = UFFDIO_REGISTER_MODE_WP;
        is_complete &= ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
      });
  for_each_run(histories_.size(), is_unwatched, [&](page_run blocks) {
    page_run const pages = pages_in(blocks, page_count);
    uffdio_range range{address + pages.offset(), pages.size()};
    (void)ioctl(faults_, UFFDIO_UNREGISTER, &range);
  });
  return is_complete;
}

// All pages count as written from now on. Remaining protection is harmless: the first write removes
// it.
void written_pages::disable(status code, const char *feature) {
  reason_ = std::string{feature} + ": " + std::strerror(-int(code));
  log(log_level::info,
      "swapping: written pages cannot be detected ({}); all pages are moved",
      reason_);
  if (faults_ >= 0 && !sees_faults_)
    close(std::exchange(faults_, -1));  // otherwise a thread may wait for an answer to its fault
  if (pagemap_ >= 0)
    close(std::exchange(pagemap_, -1));
}

bool written_pages::is_full(const write_history &history) const noexcept {
  return history.full_count >= (history.skip_count == 0 ? full_times : 1);
}

page_run written_pages::pages_in(page_run blocks, uint32_t page_count) noexcept {
  uint32_t const first = blocks.first * block_pages;
  TND_ASSERT(first <= page_count);
  return {first, std::min(blocks.count * block_pages, page_count - first)};
}

// If the kernel refuses, it maps the blocks page by page.
void written_pages::stop_watching(page_run blocks) {
  TND_ASSERT(blocks.end() <= histories_.size());
  page_run const pages = pages_in(blocks, uint32_t(memory_.size() / page_size));
  uffdio_range range{reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  if (ioctl(faults_, UFFDIO_UNREGISTER, &range) != 0)
    return;
  (void)madvise(memory_.data() + pages.offset(), pages.size(), MADV_HUGEPAGE);
  for (uint32_t i = blocks.first; i < blocks.end(); i++)
    histories_[i].is_unwatched = true;
}

void written_pages::watch_again(page_run blocks) {
  TND_ASSERT(blocks.end() <= histories_.size() && faults_ >= 0);
  page_run const pages = pages_in(blocks, uint32_t(memory_.size() / page_size));
  (void)madvise(memory_.data() + pages.offset(), pages.size(), MADV_NOHUGEPAGE);
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(faults_, UFFDIO_REGISTER, &range) != 0)
    disable(status{-errno}, "userfaultfd");
  for (uint32_t i = blocks.first; i < blocks.end(); i++)
    histories_[i].is_unwatched = false;
}

status written_pages::protect(page_run pages) {
  TND_ASSERT(faults_ >= 0);
  uffdio_writeprotect range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  while (ioctl(faults_, UFFDIO_WRITEPROTECT, &range) != 0) {
    if (errno != EAGAIN && errno != EINTR)
      return status{-errno};
  }
  return status::ok;
}

void written_pages::arm(page_bits stored, uint32_t page_count) {
  TND_ASSERT(page_count <= stored.page_count() && page_count <= memory_.size() / page_size);
  if (!is_exact())
    return clear_stored(stored, page_count);
  has_scanned_touches_ = false;
  size_t const block_count = (size_t(page_count) + block_pages - 1) / block_pages;
  if (histories_.size() < block_count)
    histories_.resize(block_count);
  retry_unwatched(block_count);
  if (!is_exact())
    return clear_stored(stored, page_count);
  for_each_run(
      block_count,
      [&](size_t i) { return is_full(histories_[i]); },
      [&](page_run blocks) { stored.clear(pages_in(blocks, page_count)); });
  protect_stored(stored, page_count);
  if (!is_exact())
    clear_stored(stored, page_count);
}

// Watches blocks again that were not watched for long enough.
void written_pages::retry_unwatched(size_t block_count) {
  TND_ASSERT(block_count <= histories_.size());
  auto const is_due = [&](size_t i) {
    return is_full(histories_[i]) && histories_[i].skipped_count++ >= histories_[i].skip_count;
  };
  for_each_run(block_count, is_due, [&](page_run blocks) {
    if (is_exact())
      watch_again(blocks);
    for (uint32_t i = blocks.first; i < blocks.end(); i++) {
      histories_[i].full_count = 0;
      histories_[i].skipped_count = 0;
    }
  });
}

void written_pages::protect_stored(page_bits stored, uint32_t page_count) {
  TND_ASSERT(is_exact());
  if (armed_.size() < page_bits::word_count(page_count))
    armed_ = std::vector<page_bits::word>(page_bits::word_count(page_count));
  page_bits armed{armed_.data(), page_count};
  armed.clear({0, page_count});
  stored.for_each_run(true, {0, page_count}, [&](page_run pages) {
    if (!is_exact())
      return;
    armed.set(pages);
    if (status const code = protect(pages); code != status::ok)
      disable(code, "write protection");
  });
}

// A page that was written before it was protected is still in the page table.
void written_pages::arm_among_others(page_bits stored, uint32_t page_count) {
  arm(stored, page_count);
  if (is_exact())
    scan(category_present, stored, page_count);
}

void written_pages::collect(page_bits stored, uint32_t page_count) {
  TND_ASSERT(page_count <= stored.page_count() && page_count <= memory_.size() / page_size);
  if (!is_exact())
    return clear_stored(stored, page_count);
  scan(category_written, stored, page_count);
  if (is_exact())
    learn({armed_.data(),
           uint32_t(std::min<size_t>(page_count, armed_.size() * page_bits::word_bits))},
          stored,
          page_count);
}

// Clears the bits of pages in the category.
void written_pages::scan(uint64_t category, page_bits stored, uint32_t page_count) {
  TND_ASSERT(is_exact() && pagemap_ >= 0);
  std::array<scan_region, 512> regions;
  auto const address = reinterpret_cast<uintptr_t>(memory_.data());
  scan_request request{};
  request.size = sizeof request;
  request.begin = address;
  request.end = address + uint64_t(page_count) * page_size;
  request.regions = reinterpret_cast<uintptr_t>(regions.data());
  request.region_count = regions.size();
  request.category_mask = category;
  request.return_mask = category;
  while (request.begin < request.end) {
    int const region_count = ioctl(pagemap_, scan_call, &request);
    if (region_count < 0 && errno == EINTR)
      continue;
    if (region_count < 0) {
      disable(status{-errno}, "PAGEMAP_SCAN");
      return clear_stored(stored, page_count);
    }
    for (int i = 0; i < region_count; i++) {
      auto const &region = regions[size_t(i)];
      stored.clear({uint32_t((region.begin - address) / page_size),
                    uint32_t((region.end - region.begin) / page_size)});
    }
    request.begin = request.walk_end;
  }
}

// A block counts as full when nearly all of its watched pages were written, and these are most of
// the block.
bool written_pages::learn_block(write_history &history,
                                uint32_t watched,
                                uint32_t clean) const noexcept {
  TND_ASSERT(watched <= block_pages && clean <= block_pages);
  if (is_full(history) || watched == 0)
    return false;
  bool const was_written = watched >= block_pages / 2 && clean <= watched / 8;
  history.full_count = was_written ? uint8_t(history.full_count + 1) : uint8_t{0};
  if (!was_written)
    history.skip_count = 0;
  if (!is_full(history))
    return false;
  history.skip_count =
      uint8_t(std::clamp(2 * history.skip_count, int{skip_count_min}, int{skip_count_max}));
  return true;
}

uint32_t written_pages::count_unwatched_runs() const {
  uint32_t count = 0;
  for_each_run(
      histories_.size(),
      [&](size_t i) { return histories_[i].is_unwatched; },
      [&](page_run) { count++; });
  return count;
}

void written_pages::learn(page_bits armed, page_bits stored, uint32_t page_count) {
  size_t const count = std::min({histories_.size(),
                                 (size_t(page_count) + block_pages - 1) / block_pages,
                                 armed.page_count() / size_t{block_pages}});
  auto const becomes_full = [&](size_t i) {
    page_run const block = pages_in({uint32_t(i), 1}, page_count);
    if (left_out_.page_count() != 0 &&
        left_out_.find(true, block.first, block.end()) != block.end())
      return false;  // touches of its left out pages are watched
    return learn_block(histories_[i], armed.count_set(block), stored.count_set(block));
  };
  uint32_t unwatched_runs = count_unwatched_runs();
  for_each_run(count, becomes_full, [&](page_run blocks) {
    // The few pages that were not written are not watched any more either.
    stored.clear(pages_in(blocks, page_count));
    if (unwatched_runs++ < unwatched_runs_max)
      stop_watching(blocks);
  });
  armed.clear({0, armed.page_count()});  // a second call without arm() in between learns nothing
}

// All pages count as written, except those that are not in memory.
void written_pages::clear_stored(page_bits stored, uint32_t page_count) const noexcept {
  if (left_out_.page_count() == 0)
    return stored.clear({0, page_count});
  left_out_.for_each_run(false, {0, page_count}, [&](page_run pages) { stored.clear(pages); });
}

void written_pages::find_cold(page_bits cold, page_bits stored, uint32_t page_count) {
  TND_ASSERT(page_count <= cold.page_count() && page_count <= stored.page_count());
  size_t const words = page_bits::word_count(page_count);
  if (untouched_.size() != words) {
    untouched_ = std::vector<page_bits::word>(words);
    untouched_before_ = std::vector<page_bits::word>(words);
  }
  if (!std::exchange(has_scanned_touches_, true))
    std::swap(untouched_, untouched_before_);
  page_bits const before{untouched_before_.data(), page_count};
  page_bits const untouched{untouched_.data(), page_count};
  cold.clear({0, page_count});
  find_untouched(untouched, page_count);
  untouched.for_each_run(true, {0, page_count}, [&](page_run pages) {
    before.for_each_run(true, pages, [&](page_run both) {
      stored.for_each_run(true, both, [&](page_run run) { cold.set(run); });
    });
  });
}

void written_pages::find_untouched(page_bits untouched, uint32_t page_count) {
  untouched.set({0, page_count});
  if (is_exact())
    scan(category_present, untouched, page_count);
  if (!is_exact())
    return untouched.clear({0, page_count});
  // Pages of blocks that are not watched count as written when the process returns.
  for (size_t i = 0; i < histories_.size(); i++) {
    if (is_full(histories_[i]) || histories_[i].is_unwatched)
      untouched.clear(pages_in({uint32_t(i), 1}, page_count));
  }
}

bool written_pages::watch_touches(page_run pages) noexcept {
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING;
  return sees_faults_ && ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
}

// The kernel does not take a part of the modes away: begin again.
void written_pages::unwatch_touches(page_run pages) noexcept {
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  (void)ioctl(faults_, UFFDIO_UNREGISTER, &range.range);
  if (ioctl(faults_, UFFDIO_REGISTER, &range) != 0)
    disable(status{-errno}, "userfaultfd");
}

}  // namespace tanada::onesided::swap
