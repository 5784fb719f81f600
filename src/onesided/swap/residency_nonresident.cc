// Non-resident execution: a process runs while it is swapped out, and reads pages on demand.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/swap/residency.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr uint32_t group_pages = 8;  // pages that are read together with the touched one
// The same of left out pages: at first, and at most.
constexpr uint32_t left_out_group_pages = 16, left_out_group_max = page_request::page_count_max;
constexpr size_t loan_count_max =
    8;  // groups that are read on demand before all pages are swapped in
// Bytes that a working process touches in a nanosecond. A process that ran for less time than its
// memory needs may not have touched most of it.
constexpr uint64_t touched_per_ns = 8;
static_assert(loan_count_max < node_table::requests_per_origin);

}  // namespace

// A move out that has begun is completed first; otherwise the memory would have to be swapped in
// again.
bool residency::begin_nonresident() {
  lock_guard const lock{nonresident_mutex_};
  if (!may_be_nonresident_ || predictor_.expects_full_use())
    return false;
  while (table_.state(rank_) == rank_state::swap_out && table_.failure() == nullptr)
    table_.sleep(rank_, sleep_ns);
  if (table_.state(rank_) != rank_state::swapped || table_.failure() != nullptr ||
      !memory_.pager->watch())
    return false;
  is_nonresident_.store(true, std::memory_order_release);
  return true;
}

// False: faults of another thread have caused all pages to be swapped in.
bool residency::end_nonresident() {
  lock_guard const lock{nonresident_mutex_};
  if (!is_nonresident())
    return false;
  TND_ASSERT(depth_ == 0);
  depth_++;
  is_nonresident_.store(false, std::memory_order_release);
  predictor_.learn(false);
  return_loaned_pages();
  return true;
}

// Called before a wait of a process that has all of its pages in DRAM: `resident_size` bytes.
void residency::learn(uint64_t resident_size) {
  if (memory_.pager == nullptr)
    return;
  lock_guard const lock{nonresident_mutex_};
  bool const has_worked =
      table_.time().now_ns() - running_since_ns_ >= resident_size / touched_per_ns;
  predictor_.learn(std::exchange(was_restored_, false) ||
                   needs_all_pages_.load(std::memory_order_relaxed) || has_worked);
  needs_all_pages_.store(false, std::memory_order_relaxed);
}

// A loaned page may have been written. It is not accessible after this.
void residency::return_loaned_pages() {
  TND_ASSERT(nonresident_mutex_.is_held());
  for (auto const &loan : loaned_pages_) {
    for (uint32_t const page : loan.pages) {
      memory_.pager->revoke(page);
      stored_[rank_].clear({page, 1});
      if (leaves_out())
        memory_.cold.clear({page, 1});
    }
    table_.complete_request(*loan.request);
  }
  loaned_pages_.clear();
}

status residency::restore() {
  lock_guard const lock{nonresident_mutex_};
  return is_nonresident() ? restore_locked() : status::ok;
}

// Return loaned pages first. Pages that are needed stay in the cache, and the process may wait for
// DRAM.
status residency::restore_locked() {
  TND_ASSERT(nonresident_mutex_.is_held() && is_nonresident());
  return_loaned_pages();
  for (;;) {
    if (table_.failure() != nullptr)
      return table_.report_failure();
    if (table_.try_resume(rank_))
      break;
    if (table_.is_swapped_in(rank_)) {
      memory_.pager->arm();
      table_.complete_swap_in(rank_);
      continue;
    }
    table_.sleep(rank_, queue_sleep_ns);
  }
  is_nonresident_.store(false, std::memory_order_release);
  memory_.pager->grant_all();
  was_restored_ = true;
  return status::ok;
}

void residency::disable_nonresident() {
  if (memory_.pager == nullptr)
    return;
  lock_guard const lock{nonresident_mutex_};
  may_be_nonresident_ = false;
  if (leaves_out())
    memory_.cold.clear({0, memory_.cold.page_count()});
  if (is_nonresident())
    (void)restore_locked();  // the node table has failed, which the next wait reports
  if (leaves_out())
    (void)read_left_out_locked({0, left_out_[rank_].page_count()});  // the same
}

residency::page_loan *residency::find_loan(uint32_t page) {
  TND_ASSERT(nonresident_mutex_.is_held());
  for (auto &loan : loaned_pages_) {
    auto const &run = loan.request->runs[0];
    if (page >= run.first && page < run.end())
      return &loan;
  }
  return nullptr;
}

page_request *residency::request_group(uint32_t page) {
  TND_ASSERT(nonresident_mutex_.is_held() && page < stored_[rank_].page_count());
  uint32_t const first = page / group_pages * group_pages;
  page_run const group{first, std::min(group_pages, stored_[rank_].page_count() - first)};
  // A process that touches one group after the other will touch many pages.
  bool const is_stream = !loaned_pages_.empty() &&
                         loaned_pages_.back().request->runs[0].end() == first &&
                         loaned_pages_.back().pages.size() > group_pages / 2;
  if (is_stream || loaned_pages_.size() >= loan_count_max)
    return nullptr;
  return table_.post(rank_, rank_, {&group, 1});
}

status residency::await_grant(const page_request &request) {
  while (!node_table::is_granted(request)) {
    if (table_.failure() != nullptr)
      return table_.report_failure();
    table_.sleep(rank_, sleep_ns);
  }
  return status::ok;
}

// A page that a thread touches during a wait, against the contract, is granted when the process
// runs next.
status residency::handle_fault(uint32_t page) {
  lock_guard const lock{nonresident_mutex_};
  if (!is_nonresident())
    return leaves_out() ? handle_left_out(page) : status::ok;
  page_loan *loan = find_loan(page);
  if (loan == nullptr) {
    page_request *const request = request_group(page);
    if (request == nullptr)
      return restore_locked();
    TND_TRY(await_grant(*request));
    loaned_pages_.push_back({request, {}});
    loan = &loaned_pages_.back();
  }
  if (std::find(loan->pages.begin(), loan->pages.end(), page) == loan->pages.end())
    loan->pages.push_back(page);
  if (memory_.pager->grant(page) == status::ok)
    return status::ok;
  table_.fail(last_message().c_str());
  return table_.report_failure();
}

// Called while the rank waits to be swapped out, after `collect`.
void residency::find_cold() {
  if (!leaves_out() || !memory_.find_cold)
    return;
  lock_guard const lock{nonresident_mutex_};
  if (may_be_nonresident_ && memory_.pager->can_leave_out())
    memory_.find_cold();
  else
    memory_.cold.clear({0, memory_.cold.page_count()});
}

status residency::handle_left_out(uint32_t page) {
  TND_ASSERT(nonresident_mutex_.is_held());
  auto const &left_out = left_out_[rank_];
  if (!left_out.test(page))
    return memory_.pager->grant(page);  // another request has read it, or it was never touched
  bool const is_stream = last_read_.count != 0 && page == last_read_.end();
  uint32_t const count =
      is_stream ? std::min(2 * last_read_.count, left_out_group_max) : left_out_group_pages;
  uint32_t const first = is_stream ? page : page / left_out_group_pages * left_out_group_pages;
  uint32_t const end = std::min(first + count, left_out.page_count());
  last_read_ = {first, end - first};
  return read_left_out_locked(last_read_);
}

status residency::read_left_out(page_run pages) {
  lock_guard const lock{nonresident_mutex_};
  return leaves_out() && !is_nonresident() ? read_left_out_locked(pages) : status::ok;
}

// Threads that touch the pages meanwhile wait for them, or for the mutex.
status residency::read_left_out_locked(page_run pages) {
  TND_ASSERT(nonresident_mutex_.is_held());
  auto const &left_out = left_out_[rank_];
  for (uint32_t first = left_out.find(true, pages.first, pages.end()); first < pages.end();) {
    uint32_t const limit = std::min(first + left_out_group_max, pages.end());
    page_run const run{first, left_out.find(false, first, limit) - first};
    if (run.count != 0) {
      page_request *request = table_.post(rank_, rank_, {&run, 1});
      while (request == nullptr && table_.failure() == nullptr) {
        table_.sleep(rank_, sleep_ns);
        request = table_.post(rank_, rank_, {&run, 1});
      }
      if (request == nullptr)
        return table_.report_failure();
      TND_TRY(await_grant(*request));
      table_.complete_request(*request);
      if (memory_.pager != nullptr)
        memory_.pager->resume(run);
    }
    first = left_out.find(true, run.end(), pages.end());
  }
  return status::ok;
}

}  // namespace tanada::onesided::swap
