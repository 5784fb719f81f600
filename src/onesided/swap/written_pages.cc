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

#include "core/base/log.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::comex::swap {
namespace {

// Of Linux 6.7, and not in the headers of systems that are older than that.
constexpr uint64_t feature_shmem = uint64_t{1} << 12, feature_unpopulated = uint64_t{1} << 13,
                   feature_async = uint64_t{1} << 15;
constexpr uint64_t feature_missing = uint64_t{1} << 5,
                   feature_minor = uint64_t{1} << 10;  // of shared memory
constexpr int user_mode_only =
    1;  // needs no privilege; asynchronous write protection waits for nobody, whoever writes

struct scan_region {
  uint64_t begin, end, categories;
};
struct scan_request {
  uint64_t size, flags, begin, end, walk_end, regions, region_count, pages_max;
  uint64_t category_inverted, category_mask, category_anyof, return_mask;
};
static_assert(sizeof(scan_request) == 96);
constexpr unsigned long scan_call = _IOWR('f', 16, scan_request);
constexpr uint64_t category_written = 1 << 1, category_present = 1 << 3;

constexpr uint32_t block_pages = 512;  // of a habit: 2 MiB
constexpr uint8_t full_times = 2, spared_times_first = 4, spared_times_last = 16;
constexpr uint32_t free_runs_max =
    8192;  // each makes the system's list of this process's mappings longer by two

// f(page_run of blocks) for the longest runs of blocks below `count` for which is_one(index).
template <class Is, class Function>
void for_each_run(size_t count, Is &&is_one, Function &&f) {
  for (size_t i = 0; i < count; i++) {
    size_t const first = i;
    while (i < count && is_one(i))
      i++;
    if (i > first)
      f(page_run{uint32_t(first), uint32_t(i - first)});
  }
}

}  // namespace

std::unique_ptr<written_pages> written_pages::create(std::span<std::byte> memory) {
  std::unique_ptr<written_pages> made{new written_pages{memory}};
  if (status const code = made->open(); code != status::ok)
    made->give_up(code, "userfaultfd");
  return made;
}

written_pages::~written_pages() {
  if (faults_ >= 0)
    close(faults_);
  if (pagemap_ >= 0)
    close(pagemap_);
}

// With privilege, or where the system's owner has allowed it, touches by the system itself are
// seen, too: its calls would fail otherwise.
int written_pages::open_faults() {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  auto const begin = [](int descriptor, uint64_t more) {
    uffdio_api wanted{};
    wanted.api = UFFD_API;
    wanted.features = feature_shmem | feature_unpopulated | feature_async | more;
    if (descriptor < 0 || ioctl(descriptor, UFFDIO_API, &wanted) == 0)
      return descriptor;
    int const code = errno;
    close(descriptor);
    errno = code;
    return -1;
  };
  int made = begin(int(syscall(SYS_userfaultfd, flags)), feature_missing | feature_minor);
  if (made < 0) {
    int const device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device >= 0)
      made = begin(ioctl(device, USERFAULTFD_IOC_NEW, flags), feature_missing | feature_minor);
    if (device >= 0)
      close(device);
  }
  sees_touches_ = made >= 0;
  return sees_touches_ ? made : begin(int(syscall(SYS_userfaultfd, flags | user_mode_only)), 0);
}

status written_pages::open() {
  if (port::page_size() != page_size)
    return status::not_supported;
  auto const said = [] {
    return status{-errno};
  };
  faults_ = open_faults();
  if (faults_ < 0)
    return said();
  if (!watch_writes())
    return said();
  pagemap_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap_ < 0)
    return said();
  scan_request none{};
  none.size = sizeof none;
  none.end = reinterpret_cast<uintptr_t>(memory_.data());
  none.begin = none.end;
  none.return_mask = category_written;
  none.category_mask = category_written;
  return ioctl(pagemap_, scan_call, &none) < 0 ? said() : status::ok;
}

// Blocks that are free stay so: who waits there goes on at once, and all of them count as written
// anyhow.
bool written_pages::watch_writes() noexcept {
  uint32_t const page_count = uint32_t(memory_.size() / page_size),
                 block_count = (page_count + block_pages - 1) / block_pages;
  auto const begin = reinterpret_cast<uintptr_t>(memory_.data());
  bool is_done = true;
  auto const is_free = [&](size_t i) {
    return i < habits_.size() && habits_[i].is_free;
  };
  for_each_run(
      block_count, [&](size_t i) { return !is_free(i); },
      [&](page_run blocks) {
        page_run const pages = pages_in(blocks, page_count);
        uffdio_register range{};
        range.range = {begin + pages.offset(), pages.size()};
        range.mode = UFFDIO_REGISTER_MODE_WP;
        is_done &= ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
      });
  for_each_run(habits_.size(), is_free, [&](page_run blocks) {
    page_run const pages = pages_in(blocks, page_count);
    uffdio_range range{begin + pages.offset(), pages.size()};
    (void)ioctl(faults_, UFFDIO_UNREGISTER, &range);
  });
  return is_done;
}

// All pages count as written from now on. Protection that is still there does not harm: it goes
// with the first write.
void written_pages::give_up(status code, const char *what) {
  reason_ = std::string{what} + ": " + std::strerror(-int(code));
  log(log_level::info, "pages that were not written cannot be told from others, all are moved (%s)",
      reason_.c_str());
  if (faults_ >= 0 && !sees_touches_)
    close(std::exchange(faults_, -1));  // else somebody may wait for what it says
  if (pagemap_ >= 0)
    close(std::exchange(pagemap_, -1));
}

bool written_pages::is_full(const habit &of) const noexcept {
  return of.full >= (of.most == 0 ? full_times : 1);
}

page_run written_pages::pages_in(page_run blocks, uint32_t page_count) noexcept {
  uint32_t const first = blocks.first * block_pages;
  return {first, std::min(blocks.count * block_pages, page_count - first)};
}

// A system that refuses maps them page by page.
void written_pages::let_go(page_run blocks) {
  page_run const pages = pages_in(blocks, uint32_t(memory_.size() / page_size));
  uffdio_range range{reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  if (ioctl(faults_, UFFDIO_UNREGISTER, &range) != 0)
    return;
  (void)madvise(memory_.data() + pages.offset(), pages.size(), MADV_HUGEPAGE);
  for (uint32_t i = blocks.first; i < blocks.end(); i++)
    habits_[i].is_free = true;
}

void written_pages::watch_again(page_run blocks) {
  page_run const pages = pages_in(blocks, uint32_t(memory_.size() / page_size));
  (void)madvise(memory_.data() + pages.offset(), pages.size(), MADV_NOHUGEPAGE);
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(faults_, UFFDIO_REGISTER, &range) != 0)
    give_up(status{-errno}, "userfaultfd");
  for (uint32_t i = blocks.first; i < blocks.end(); i++)
    habits_[i].is_free = false;
}

status written_pages::protect(page_run pages) {
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
  if (!is_exact())
    return stored.clear({0, page_count});
  size_t const block_count = (size_t(page_count) + block_pages - 1) / block_pages;
  if (habits_.size() < block_count)
    habits_.resize(block_count);
  for_each_run(
      block_count,
      [&](size_t i) { return is_full(habits_[i]) && habits_[i].spared++ >= habits_[i].most; },
      [&](page_run blocks) {
        if (is_exact())
          watch_again(blocks);
        for (uint32_t i = blocks.first; i < blocks.end(); i++) {
          habits_[i].full = 0;
          habits_[i].spared = 0;
        }
      });
  if (!is_exact())
    return stored.clear({0, page_count});
  for_each_run(
      block_count, [&](size_t i) { return is_full(habits_[i]); },
      [&](page_run blocks) { stored.clear(pages_in(blocks, page_count)); });
  if (armed_.size() < page_bits::word_count(page_count))
    armed_ = std::vector<page_bits::word>(page_bits::word_count(page_count));
  page_bits armed{armed_.data(), page_count};
  armed.clear({0, page_count});
  stored.for_each_run(true, {0, page_count}, [&](page_run pages) {
    if (!is_exact())
      return;
    armed.set(pages);
    if (status const code = protect(pages); code != status::ok)
      give_up(code, "write protection");
  });
  if (!is_exact())
    stored.clear({0, page_count});
}

// Who has written a page before it was protected has it in its page table still.
void written_pages::arm_among_others(page_bits stored, uint32_t page_count) {
  arm(stored, page_count);
  if (is_exact())
    scan(category_present, stored, page_count);
}

void written_pages::collect(page_bits stored, uint32_t page_count) {
  if (!is_exact())
    return stored.clear({0, page_count});
  scan(category_written, stored, page_count);
  if (is_exact())
    learn({armed_.data(),
           uint32_t(std::min<size_t>(page_count, armed_.size() * page_bits::word_bits))},
          stored, page_count);
}

// Clears the bits of those that are of the category.
void written_pages::scan(uint64_t category, page_bits stored, uint32_t page_count) {
  std::array<scan_region, 512> regions;
  auto const begin = reinterpret_cast<uintptr_t>(memory_.data());
  scan_request request{};
  request.size = sizeof request;
  request.begin = begin;
  request.end = begin + uint64_t(page_count) * page_size;
  request.regions = reinterpret_cast<uintptr_t>(regions.data());
  request.region_count = regions.size();
  request.category_mask = category;
  request.return_mask = category;
  while (request.begin < request.end) {
    int const found = ioctl(pagemap_, scan_call, &request);
    if (found < 0 && errno == EINTR)
      continue;
    if (found < 0) {
      give_up(status{-errno}, "PAGEMAP_SCAN");
      return stored.clear({0, page_count});
    }
    for (int i = 0; i < found; i++) {
      auto const &each = regions[size_t(i)];
      stored.clear({uint32_t((each.begin - begin) / page_size),
                    uint32_t((each.end - each.begin) / page_size)});
    }
    request.begin = request.walk_end;
  }
}

// A block is full when nearly all that was watched of it was written, and that is most of it.
void written_pages::learn(page_bits armed, page_bits stored, uint32_t page_count) {
  size_t const count =
      std::min({habits_.size(), (size_t(page_count) + block_pages - 1) / block_pages,
                armed.page_count() / size_t{block_pages}});
  auto const becomes_full = [&](size_t i) {
    auto &each = habits_[i];
    if (is_full(each))
      return false;
    page_run const block = pages_in({uint32_t(i), 1}, page_count);
    uint32_t const watched = armed.count_set(block), clean = stored.count_set(block);
    if (watched == 0)
      return false;
    bool const was_written = watched >= block_pages / 2 && clean <= watched / 8;
    each.full = was_written ? uint8_t(each.full + 1) : uint8_t{0};
    if (!was_written)
      each.most = 0;
    if (!is_full(each))
      return false;
    each.most = uint8_t(std::clamp(2 * each.most, int{spared_times_first}, int{spared_times_last}));
    return true;
  };
  uint32_t free_runs = 0;
  for_each_run(
      habits_.size(), [&](size_t i) { return habits_[i].is_free; }, [&](page_run) { free_runs++; });
  for_each_run(count, becomes_full, [&](page_run blocks) {
    stored.clear(pages_in(
        blocks, page_count));  // what little of them was not written is no longer watched either
    if (free_runs++ < free_runs_max)
      let_go(blocks);
  });
  armed.clear(
      {0,
       armed.page_count()});  // who asks once more, with nothing armed in between, has learned it
}

}  // namespace tanada::comex::swap
