// onesided/swap/residency.hpp: a process's side of the node table: its waits, its non-resident
// execution, and its access to the memory of others.
#pragma once

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "onesided/swap/page_request_queue.hpp"
#include "onesided/swap/residency_predictor.hpp"

namespace tanada::onesided::swap {

// Handles page faults of a process that runs while it is swapped out. A thread that touches a page
// waits until the page is granted. See userfault_pager.hpp.
class demand_pager {
 public:
  virtual ~demand_pager() = default;
  virtual bool watch() = 0;  // begins to report faults; false: it is not possible
  // Makes the page accessible. It is in DRAM, or was never touched. Returns the system's error,
  // with a message.
  virtual status grant(uint32_t page) = 0;
  virtual void revoke(uint32_t page) = 0;  // the next thread that touches the page waits again
  // Called instead of `memory_hooks::arm()` when all pages are in DRAM. It records writes that
  // other threads make meanwhile, too. Waiting threads continue after grant_all().
  virtual void arm() = 0;
  virtual void grant_all() = 0;
  // Faults of left out pages can be handled. arm() begins to report those of the pages whose bits
  // in `left_out` are set then.
  virtual bool can_leave_out() {
    return false;
  }
  // Threads that wait for these pages, which were left out and are in DRAM now, continue.
  virtual void resume(page_run) {}
};

// What a process does with its own memory; see written_pages.hpp.
struct memory_hooks {
  // Clears the bits in `stored` of pages written since the last time, and watches for further
  // writes.
  std::function<void()> collect;
  std::function<void()> arm;                // watches for writes, after all pages were read back
  std::function<uint64_t()> resident_size;  // bytes in DRAM
  demand_pager *pager = nullptr;            // null: this process never runs while it is swapped out
  // Sets the bits in `cold` of pages that the process did not touch lately; may be empty. It
  // follows `collect`.
  std::function<void()> find_cold = {};
  page_bits cold = {};  // of this process
};

// Thread safety: one thread at a time, except where noted.
class residency {
 public:
  // `stored`: bits of all ranks. The table and the bits outlive this object.
  // `left_out`: the same; without it, processes leave no pages out.
  residency(node_table &table,
            uint32_t rank,
            std::span<page_bits> stored,
            memory_hooks memory,
            std::span<page_bits> left_out = {});

  // Called before and after everything else. start() returns when the process runs.
  status start(int32_t process_id);
  void finish();

  // Called around a wait, in this order: begin_wait(), prepare_swap_out() about each millisecond
  // and when woken, end_wait(). Between begin_wait() and end_wait() swappable memory is not
  // accessed, unless the kind is `pinned` or `for_pages`. The calls nest: an inner pair is a no-op.
  // After end_wait() the process is running, and resident or non-resident. It returns `peer_lost`
  // when the node table has failed, with its text as the message.
  void begin_wait(wait_kind kind);
  void prepare_swap_out();
  status end_wait();
  bool is_running() const noexcept {
    return depth_ == 0;
  }

  // With `memory_hooks::pager`, a process that is swapped out when its wait ends continues without
  // its memory. A page that it touches is read on demand. When it touches many pages, all are
  // swapped in. This pays off because programs often access only some variables between two waits.
  // The node table has the process as `swapped` meanwhile.
  bool is_nonresident() const noexcept {
    return is_nonresident_.load(std::memory_order_acquire);
  }
  // Swaps in all pages of this process. It is called before an operation for which reading pages on
  // demand is unsuitable. Returns what end_wait() returns. Any thread.
  status make_resident() {
    if (is_nonresident())
      return restore();
    if (!needs_all_pages_.load(std::memory_order_relaxed))
      needs_all_pages_.store(true, std::memory_order_relaxed);
    return status::ok;
  }
  void disable_nonresident();  // from now on; any thread
  // A thread waits for this page of the process. Called by one thread, which touches no swappable
  // memory itself.
  status handle_fault(uint32_t page);
  // Reads those of these pages that were left out when this process was swapped in. Called before
  // their memory is freed, for example. Any thread that may wait.
  status read_left_out(page_run pages);

  // For calls that programs repeat without ever waiting: yields if the scheduler requests it.
  // Cheap.
  status yield_if_requested() {
    return table_.is_yield_requested(rank_) ? yield() : status::ok;
  }

  // Called before memory is allocated, and after it is freed. reserve() waits for DRAM as `kind`.
  // It returns `no_memory`, with a message, where the budget is too small.
  status reserve(uint64_t bytes, wait_kind kind = wait_kind::swappable);
  void release(uint64_t bytes) {
    table_.release(rank_, bytes);
  }

  // As `page_request_queue::try_direct`, for a resident process.
  template <class Access>
  bool try_direct(uint32_t target,
                  bool is_writing,
                  std::span<const extent> extents,
                  Access &&access) {
    TND_ASSERT(!is_nonresident());
    return page_requests_.try_direct(target, is_writing, extents, std::forward<Access>(access));
  }

  // Begins an access. True: it was carried out at once, because the memory is resident. False: it
  // is in progress, and what it uses stays in use until complete().
  bool begin(page_access access);
  // Completes all accesses. Waits as `for_pages`: the memory of this process stays in DRAM.
  status complete();
  bool is_complete() const noexcept {
    return page_requests_.is_empty();
  }
  // Never waits.
  void poll() {
    page_requests_.poll();
  }

  node_table &table() noexcept {
    return table_;
  }
  uint32_t rank() const noexcept {
    return rank_;
  }

 private:
  // Timeouts of waits that the agent ends with an alarm: a lost alarm delays a rank no longer than
  // that.
  static constexpr uint64_t sleep_ns = 1'000'000, queue_sleep_ns = 10'000'000;

  status yield();
  bool begin_nonresident();
  status restore();
  status restore_locked() TND_REQUIRES(nonresident_mutex_);
  bool end_nonresident();
  void return_loaned_pages() TND_REQUIRES(nonresident_mutex_);
  void learn(uint64_t resident_size);
  void find_cold();
  struct page_loan;
  page_loan *find_loan(uint32_t page) TND_REQUIRES(nonresident_mutex_);
  // Null: all pages should be swapped in instead.
  page_request *request_group(uint32_t page) TND_REQUIRES(nonresident_mutex_);
  status await_grant(const page_request &request);
  status read_left_out_locked(page_run pages) TND_REQUIRES(nonresident_mutex_);
  status handle_left_out(uint32_t page) TND_REQUIRES(nonresident_mutex_);
  bool leaves_out() const noexcept {
    return !left_out_.empty() && left_out_[rank_].page_count() != 0;
  }

  node_table &table_;
  uint32_t const rank_;
  std::span<page_bits> stored_, left_out_;
  memory_hooks memory_;
  uint32_t depth_ = 0;
  page_request_queue page_requests_;

  // A group of its own pages that was read on demand.
  struct page_loan {
    page_request *request;
    std::vector<uint32_t> pages;
  };
  std::atomic<bool> is_nonresident_{false};  // changes under the mutex
  mutex nonresident_mutex_;
  bool may_be_nonresident_ TND_GUARDED_BY(nonresident_mutex_) = true;
  // Predicts full use, because swapping in all pages uses larger transfers than reading on demand.
  residency_predictor predictor_ TND_GUARDED_BY(nonresident_mutex_);
  bool was_restored_ TND_GUARDED_BY(nonresident_mutex_) = false;
  std::vector<page_loan> loaned_pages_ TND_GUARDED_BY(nonresident_mutex_);
  // The pages that the last fault of a left out page has read. A fault behind them reads twice as
  // many.
  page_run last_read_ TND_GUARDED_BY(nonresident_mutex_);

  // All pages were needed since they were swapped in; set by any thread.
  std::atomic<bool> needs_all_pages_{false};
  uint64_t running_since_ns_ = 0;  // start of the current run
};

}  // namespace tanada::onesided::swap
