// onesided/swap/memory_window.hpp: a process's swappable memory, mapped for the page mover. A store
// reads and writes it in place, in large pages.
#pragma once

#include <memory>

#include "onesided/swap/memory_file.hpp"

namespace tanada::onesided::swap {

// A separate mapping: other processes access the same bytes at their own addresses, whatever is
// done here. It uses no memory by itself.
//
// Blocks are those of the file, of 2 MiB each. A block that is a single large page costs one fault
// instead of 512. It is not copied on its way to the store, and is one descriptor for the device.
//
// On 2 virtual cores, a page of 4 KiB takes 1.6 us to copy into a hole, 1.0 us to copy out, 0.8 us
// to drop and 1.2 us to touch again. In a large page the times are 0.3, 0, 0.02 and 0 us. Reading
// from the disk there: 1.8 GB/s into small pages, and 3.0 GB/s into large ones. Writing: 4.1 and
// 4.6 GB/s.
//
// Thread safety: one thread at a time.
class memory_window {
 public:
  static constexpr uint32_t block_pages = 512;

  // Returns errors with a message. The descriptor of `file` outlives the window.
  static result<std::unique_ptr<memory_window>> open(const memory_file &file);
  ~memory_window();
  memory_window(const memory_window &) = delete;
  memory_window &operator=(const memory_window &) = delete;

  std::byte *address(page_run pages) const noexcept {
    TND_ASSERT(memory_ != nullptr && pages.end() <= file_.page_count());
    return memory_ + pages.offset();
  }

  // Blocks: a page's own block is [block_begin, block_begin + block_pages), which may exceed the
  // memory at its ends.
  bool is_block(page_run pages) const noexcept {
    return (pages.first + shift_) % block_pages == 0 && pages.count == block_pages;
  }
  uint32_t block_end(uint32_t page) const noexcept {
    return page + block_pages - (page + shift_) % block_pages;
  }

  // Makes the block one large page of zeros in DRAM. It must have no memory before. False: the
  // system has no large page now, nothing has changed, and some later call tries again.
  bool make_large(page_run block);
  // The block was made large, and no part of it was dropped since.
  bool is_large(uint32_t page) const noexcept {
    return large_.test(block_of(page));
  }
  // Records that the pages are no longer in DRAM.
  void forget(page_run pages) noexcept;

 private:
  explicit memory_window(const memory_file &file);
  uint32_t block_of(uint32_t page) const noexcept {
    return (page + shift_) / block_pages;
  }

  memory_file const file_;
  uint32_t const shift_;  // pages of the first block that precede the memory
  std::byte *memory_ = nullptr;
  page_bits::word *words_;
  page_bits large_;       // by block
  uint32_t refused_ = 0;  // blocks to leave small before the next attempt
};

// Allocates memory for all pages of a mapped shared file, in large pages where the system has them.
// The memory begins at a multiple of a block.
void populate(std::span<std::byte> memory) noexcept;

}  // namespace tanada::onesided::swap
