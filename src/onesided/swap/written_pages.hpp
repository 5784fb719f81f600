// onesided/swap/written_pages.hpp: the pages of its own memory that a process has written since
// they were read from its swap object.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "onesided/swap/pages.hpp"

namespace tanada::onesided::swap {

// Finds written pages by write protection. The kernel write-protects the pages, records each first
// write and lets it continue, without a signal or a thread (userfaultfd's asynchronous write
// protection, Linux 6.7).
//
// Costs, on 2 virtual cores: 3 ms a GiB to protect pages that are not mapped yet, 27 ms for mapped
// ones, and 3 ms a GiB to read the result. The first write to each page costs some 0.9 us and its
// first read 0.7 us, because the kernel maps no neighbours of protected pages along. Writing an
// unchanged page to a flash of 2 GB/s would cost 2 us.
//
// Blocks that were written as a whole several times are not protected for a while, and for longer
// each time, because they would be written to the store in any case. The kernel may then use one
// large page for each of them, which one fault maps.
//
// Where the kernel lacks the feature, all pages in memory count as written.
//
// Only writes of this process are detected, including system calls on its behalf. Others that write
// to the memory clear the bits themselves.
//
// Thread safety: one thread at a time, and no thread writes to the memory meanwhile.
class written_pages {
 public:
  // `memory`: shared, page-aligned, and mapped while this object lives. The result is never null.
  static std::unique_ptr<written_pages> create(std::span<std::byte> memory);
  ~written_pages();
  written_pages(const written_pages &) = delete;
  written_pages &operator=(const written_pages &) = delete;

  bool is_exact() const noexcept {
    return reason_.empty();
  }
  // Why not; empty: it is exact.
  const std::string &reason() const noexcept {
    return reason_;
  }

  // Begins to record writes to the memory's first page_count pages, after these were read back.
  // Only pages whose bit is set are watched. Clears the bits of those that it does not watch.
  void arm(page_bits stored, uint32_t page_count);

  // The same where other threads of the process may touch pages meanwhile. No page was mapped
  // before. Pages that these threads have touched count as written.
  void arm_among_others(page_bits stored, uint32_t page_count);

  // The descriptor that reports faults of unmapped pages, including those of system calls, for
  // `userfault_pager`. -1: the kernel does not permit it.
  int fault_descriptor() const noexcept {
    return sees_faults_ ? faults_ : -1;
  }

  // Watches writes again, after `userfault_pager` has watched faults instead. False: the kernel
  // refuses.
  bool watch_writes() noexcept;

  // Clears the bits of the pages that were written since arm().
  void collect(page_bits stored, uint32_t page_count);

  // After collect(): sets the bits of the stored pages that the process has touched neither since
  // arm() nor between the two calls of arm() before, and clears all others.
  void find_cold(page_bits cold, page_bits stored, uint32_t page_count);

  // Bits of pages that are only in the store, and not in memory. They stay stored whatever happens.
  void set_left_out(page_bits left_out) noexcept {
    left_out_ = left_out;
  }
  // Begins or ends to report touches of the pages, in addition to writes. They have no memory.
  // False: the kernel refuses.
  bool watch_touches(page_run pages) noexcept;
  void unwatch_touches(page_run pages) noexcept;

 private:
  // The recent history of a block.
  struct write_history {
    uint8_t full_count = 0;     // consecutive times that the whole block was written
    uint8_t skipped_count = 0;  // times since then that the block was not watched
    // Times that the block is not watched before it is watched again; 0: it is not known to be
    // written repeatedly.
    uint8_t skip_count = 0;
    bool is_unwatched = false;  // the block is not registered with the kernel
  };

  explicit written_pages(std::span<std::byte> memory) : memory_{memory} {}
  status open();
  int open_faults();
  status protect(page_run pages);
  void retry_unwatched(size_t block_count);
  void protect_stored(page_bits stored, uint32_t page_count);
  void scan(uint64_t category, page_bits stored, uint32_t page_count);
  void find_untouched(page_bits untouched, uint32_t page_count);
  void clear_stored(page_bits stored, uint32_t page_count) const noexcept;
  void disable(status code, const char *feature);
  void learn(page_bits armed, page_bits stored, uint32_t page_count);
  // Records whether the block was written as a whole. True: it need not be watched for a while.
  bool learn_block(write_history &history, uint32_t watched, uint32_t clean) const noexcept;
  uint32_t count_unwatched_runs() const;
  bool is_full(const write_history &history) const noexcept;
  void stop_watching(page_run blocks);
  void watch_again(page_run blocks);
  // The pages of the blocks, as far as they are among the first page_count.
  static page_run pages_in(page_run blocks, uint32_t page_count) noexcept;

  std::span<std::byte> memory_;
  int faults_ = -1, pagemap_ = -1;  // descriptors
  bool sees_faults_ = false;
  std::string reason_;
  std::vector<write_history> histories_;  // for each block up to the last one armed
  std::vector<page_bits::word> armed_;    // bits, copied from `stored` when armed
  page_bits left_out_;
  // Bits of the pages that were not touched since arm(), and before it.
  std::vector<page_bits::word> untouched_, untouched_before_;
  bool has_scanned_touches_ = false;  // since arm()
};

}  // namespace tanada::onesided::swap
