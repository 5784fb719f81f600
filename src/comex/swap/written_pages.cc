#include "comex/swap/written_pages.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "port/memory/shared_memory.hpp"

namespace tanada::comex::swap {
namespace {

// Of Linux 6.7, and not in the headers of systems that are older than that.
constexpr uint64_t feature_shmem = uint64_t{1} << 12, feature_unpopulated = uint64_t{1} << 13, feature_async = uint64_t{1} << 15;
constexpr int user_mode_only = 1;  // needs no privilege; asynchronous write protection waits for nobody, whoever writes

struct scan_region {
  uint64_t begin, end, categories;
};
struct scan_request {
  uint64_t size, flags, begin, end, walk_end, regions, region_count, pages_max;
  uint64_t category_inverted, category_mask, category_anyof, return_mask;
};
static_assert(sizeof(scan_request) == 96);
constexpr unsigned long scan_call = _IOWR('f', 16, scan_request);
constexpr uint64_t category_written = 1 << 1;

constexpr uint32_t block_pages = 512;  // of a habit: 2 MiB
constexpr uint8_t full_times = 2, spared_times = 4;

}  // namespace

std::unique_ptr<written_pages> written_pages::create(std::span<std::byte> memory) {
  std::unique_ptr<written_pages> made{new written_pages{memory}};
  if (status const code = made->open(); code != status::ok) made->give_up(code, "userfaultfd");
  return made;
}

written_pages::~written_pages() {
  if (faults_ >= 0) close(faults_);
  if (pagemap_ >= 0) close(pagemap_);
}

status written_pages::open() {
  if (port::page_size() != page_size) return status::not_supported;
  auto const said = [] { return status{-errno}; };
  faults_ = int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only));
  if (faults_ < 0) return said();
  uffdio_api wanted{};
  wanted.api = UFFD_API;
  wanted.features = feature_shmem | feature_unpopulated | feature_async;
  if (ioctl(faults_, UFFDIO_API, &wanted) != 0) return said();
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()), memory_.size() / page_size * page_size};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(faults_, UFFDIO_REGISTER, &range) != 0) return said();
  pagemap_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap_ < 0) return said();
  scan_request none{};
  none.size = sizeof none;
  none.begin = none.end = reinterpret_cast<uintptr_t>(memory_.data());
  none.return_mask = none.category_mask = category_written;
  return ioctl(pagemap_, scan_call, &none) < 0 ? said() : status::ok;
}

// All pages count as written from now on. Protection that is still there does not harm: it goes with the first write.
void written_pages::give_up(status code, const char *what) {
  reason_ = std::string{what} + ": " + std::strerror(-int(code));
  log(log_level::info, "pages that were not written cannot be told from others, all are moved (%s)", reason_.c_str());
  if (faults_ >= 0) close(std::exchange(faults_, -1));
  if (pagemap_ >= 0) close(std::exchange(pagemap_, -1));
}

status written_pages::protect(page_run pages) {
  uffdio_writeprotect range{};
  range.range = {reinterpret_cast<uintptr_t>(memory_.data()) + pages.offset(), pages.size()};
  range.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  while (ioctl(faults_, UFFDIO_WRITEPROTECT, &range) != 0) {
    if (errno != EAGAIN && errno != EINTR) return status{-errno};
  }
  return status::ok;
}

void written_pages::arm(page_bits stored, uint32_t page_count) {
  if (!is_exact()) return stored.clear({0, page_count});
  size_t const block_count = (size_t(page_count) + block_pages - 1) / block_pages;
  if (habits_.size() < block_count) habits_.resize(block_count);
  for (size_t i = 0; i < block_count; i++) {
    auto &each = habits_[i];
    if (each.full < full_times) continue;
    if (each.spared++ < spared_times) {
      stored.clear({uint32_t(i * block_pages), std::min(block_pages, page_count - uint32_t(i * block_pages))});
    } else {
      each = {};
    }
  }
  if (armed_.size() < page_bits::word_count(page_count)) armed_ = std::vector<page_bits::word>(page_bits::word_count(page_count));
  page_bits armed{armed_.data(), page_count};
  armed.clear({0, page_count});
  stored.for_each_run(true, {0, page_count}, [&](page_run pages) {
    if (!is_exact()) return;
    armed.set(pages);
    if (status const code = protect(pages); code != status::ok) give_up(code, "write protection");
  });
  if (!is_exact()) stored.clear({0, page_count});
}

void written_pages::collect(page_bits stored, uint32_t page_count) {
  if (!is_exact()) return stored.clear({0, page_count});
  std::array<scan_region, 512> regions;
  auto const begin = reinterpret_cast<uintptr_t>(memory_.data());
  scan_request request{};
  request.size = sizeof request;
  request.begin = begin;
  request.end = begin + uint64_t(page_count) * page_size;
  request.regions = reinterpret_cast<uintptr_t>(regions.data());
  request.region_count = regions.size();
  request.category_mask = request.return_mask = category_written;
  while (request.begin < request.end) {
    int const found = ioctl(pagemap_, scan_call, &request);
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) {
      give_up(status{-errno}, "PAGEMAP_SCAN");
      return stored.clear({0, page_count});
    }
    for (int i = 0; i < found; i++) {
      auto const &each = regions[size_t(i)];
      stored.clear({uint32_t((each.begin - begin) / page_size), uint32_t((each.end - each.begin) / page_size)});
    }
    request.begin = request.walk_end;
  }
  learn({armed_.data(), uint32_t(std::min<size_t>(page_count, armed_.size() * page_bits::word_bits))}, stored, page_count);
}

// A block is full when nearly all that was watched of it was written, and that is most of it.
void written_pages::learn(page_bits armed, page_bits stored, uint32_t page_count) {
  for (size_t i = 0; i < habits_.size() && i * block_pages < page_count; i++) {
    auto &each = habits_[i];
    if (each.full >= full_times) continue;
    page_run const block{uint32_t(i * block_pages), std::min(block_pages, page_count - uint32_t(i * block_pages))};
    if (block.end() > armed.page_count()) break;
    uint32_t const watched = armed.count_set(block), clean = stored.count_set(block);
    if (watched == 0) continue;
    each.full = watched >= block_pages / 2 && clean <= watched / 8 ? uint8_t(each.full + 1) : uint8_t{0};
  }
  armed.clear({0, armed.page_count()});  // who asks once more, with nothing armed in between, has learned it
}

}  // namespace tanada::comex::swap
