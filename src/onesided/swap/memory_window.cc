#include "onesided/swap/memory_window.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::comex::swap {
namespace {

constexpr int collapse =
    25;  // MADV_COLLAPSE, of Linux 6.1, and not in the headers of older systems
constexpr int populate_write = 23;       // MADV_POPULATE_WRITE, of Linux 5.14
constexpr uint32_t refused_blocks = 64;  // so many are not tried after one that could not be had
constexpr size_t block_size = memory_window::block_pages * page_size;

}  // namespace

memory_window::memory_window(const memory_file &of)
    : file_{of},
      shift_{uint32_t(of.offset() / page_size % block_pages)},
      words_{static_cast<page_bits::word *>(std::calloc(
          page_bits::word_count(block_of(of.page_count()) + 1), sizeof(page_bits::word)))},
      large_{words_, block_of(of.page_count()) + 1} {
  TND_ASSERT(words_ != nullptr);
}

result<std::unique_ptr<memory_window>> memory_window::open(const memory_file &of) {
  std::unique_ptr<memory_window> made{new memory_window{of}};
  // Blocks of the file lie at multiples of their size. Addresses that are not needed stay taken:
  // they cost nothing.
  size_t const size = size_t{of.page_count()} * page_size, before = made->shift_ * page_size,
               all = before + size + 2 * block_size;
  void *const taken =
      mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED)
    return fail(status{-errno}, "%zu bytes of addresses for swappable memory: %s", all,
                std::strerror(errno));
  auto const first = reinterpret_cast<uintptr_t>(taken),
             begin = (first + block_size - 1) / block_size * block_size + before;
  if (begin != first)
    munmap(taken, begin - first);
  munmap(reinterpret_cast<void *>(begin + size), first + all - begin - size);
  if (mmap(reinterpret_cast<void *>(begin), size, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED, of.descriptor(),
           off_t(of.offset())) == MAP_FAILED) {
    int const number = errno;
    munmap(reinterpret_cast<void *>(begin), size);
    return fail(status{-number}, "%zu bytes of swappable memory cannot be mapped: %s", size,
                std::strerror(number));
  }
  made->memory_ = reinterpret_cast<std::byte *>(begin);
  (void)madvise(made->memory_, size, MADV_DONTFORK);
  return made;
}

memory_window::~memory_window() {
  if (memory_ != nullptr)
    munmap(memory_, size_t{file_.page_count()} * page_size);
  std::free(words_);
}

// The system makes a large page of small ones, holes being zeros, as long as there is one.
bool memory_window::make_large(page_run block) {
  TND_ASSERT(is_block(block) && block.end() <= file_.page_count());
  if (refused_ != 0) {
    refused_--;
    return false;
  }
  std::byte *const begin = at(block);
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
  for (size_t at = 0; at < memory.size(); at += block_size) {
    auto const block = memory.subspan(at, std::min(block_size, memory.size() - at));
    *reinterpret_cast<volatile uint64_t *>(block.data()) = 0;
    if (block.size() == block_size && madvise(block.data(), block.size(), collapse) == 0)
      continue;
    (void)madvise(block.data(), block.size(),
                  populate_write);  // else each page gets it when it is touched
  }
}

void memory_window::forget(page_run pages) noexcept {
  if (pages.count == 0)
    return;
  // A block that has lost a part is no longer one page.
  uint32_t const first = block_of(pages.first);
  large_.clear({first, block_of(pages.end() - 1) - first + 1});
}

}  // namespace tanada::comex::swap
