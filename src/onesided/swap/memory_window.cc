// A mapping of swappable memory for the page mover, and large pages in it.
#include "onesided/swap/memory_window.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr int collapse = 25;        // MADV_COLLAPSE, from Linux 6.1; older systems' headers lack it
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, from Linux 5.14
constexpr uint32_t refused_blocks = 64;  // blocks that are not tried after a failed attempt
constexpr size_t block_size = memory_window::block_pages * page_size;
static_assert(block_size == size_t{2} << 20, "the size of a large page");

}  // namespace

memory_window::memory_window(const memory_file &file)
    : file_{file},
      shift_{uint32_t(file.offset() / page_size % block_pages)},
      words_{static_cast<page_bits::word *>(std::calloc(
          page_bits::word_count(block_of(file.page_count()) + 1), sizeof(page_bits::word)))},
      large_{words_, block_of(file.page_count()) + 1} {
  TND_ASSERT(words_ != nullptr);
}

result<std::unique_ptr<memory_window>> memory_window::open(const memory_file &file) {
  std::unique_ptr<memory_window> window{new memory_window{file}};
  // Blocks of the file must lie at multiples of their size. Reserve more addresses than needed, and
  // align the mapping in them.
  size_t const size = size_t{file.page_count()} * page_size,
               prefix_size = window->shift_ * page_size,
               reserved_size = prefix_size + size + 2 * block_size;
  void *const reserved =
      mmap(nullptr, reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return fail(status{-errno},
                "cannot reserve {} bytes of addresses for swappable memory: {}",
                reserved_size,
                std::strerror(errno));
  auto const first = reinterpret_cast<uintptr_t>(reserved),
             begin = (first + block_size - 1) / block_size * block_size + prefix_size;
  if (begin != first)
    munmap(reserved, begin - first);
  munmap(reinterpret_cast<void *>(begin + size), first + reserved_size - begin - size);
  if (mmap(reinterpret_cast<void *>(begin),
           size,
           PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
           file.descriptor(),
           off_t(file.offset())) == MAP_FAILED) {
    int const number = errno;
    munmap(reinterpret_cast<void *>(begin), size);
    return fail(status{-number},
                "{} bytes of swappable memory cannot be mapped: {}",
                size,
                std::strerror(number));
  }
  window->memory_ = reinterpret_cast<std::byte *>(begin);
  (void)madvise(window->memory_, size, MADV_DONTFORK);
  return window;
}

memory_window::~memory_window() {
  if (memory_ != nullptr)
    munmap(memory_, size_t{file_.page_count()} * page_size);
  std::free(words_);
}

// The kernel collapses small pages into a large one as long as it has one. Holes become zeros.
bool memory_window::make_large(page_run block) {
  TND_ASSERT(is_block(block) && block.end() <= file_.page_count());
  if (refused_ != 0) {
    refused_--;
    return false;
  }
  std::byte *const begin = address(block);
  *reinterpret_cast<volatile uint64_t *>(begin) = 0;
  if (madvise(begin, block.size(), collapse) != 0) {
    refused_ = refused_blocks;
    (void)file_.drop({block.first, 1});
    return false;
  }
  large_.set({block_of(block.first), 1});
  return true;
}

void populate(std::span<std::byte> memory) noexcept {
  for (size_t offset = 0; offset < memory.size(); offset += block_size) {
    auto const block = memory.subspan(offset, std::min(block_size, memory.size() - offset));
    *reinterpret_cast<volatile uint64_t *>(block.data()) = 0;
    if (block.size() == block_size && madvise(block.data(), block.size(), collapse) == 0)
      continue;
    (void)madvise(block.data(),
                  block.size(),
                  populate_write);  // otherwise each page is allocated when it is touched
  }
}

void memory_window::forget(page_run pages) noexcept {
  if (pages.count == 0)
    return;
  // A block that has lost a part is no longer one page.
  uint32_t const first = block_of(pages.first);
  large_.clear({first, block_of(pages.end() - 1) - first + 1});
}

}  // namespace tanada::onesided::swap
