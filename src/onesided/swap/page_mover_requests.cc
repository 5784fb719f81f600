// The page mover's requests: pages of swapped-out processes for others, and the cache of these
// pages.
#include <algorithm>

#include "onesided/swap/page_mover_state.hpp"

namespace tanada::onesided::swap {
namespace {

bool overlaps(page_run a, page_run b) noexcept {
  return a.first < b.end() && b.first < a.end();
}

}  // namespace

void page_mover::serve(page_request &request) {
  // Another process wrote the request: do not trust it.
  bool is_sound =
      request.target < ranks_.size() && request.run_count <= page_request::run_count_max;
  uint64_t page_count = 0;
  for (uint32_t i = 0; is_sound && i < request.run_count; i++) {
    uint64_t const end = uint64_t(request.runs[i].first) + request.runs[i].count;
    is_sound = end <= ranks_[request.target]->memory.page_count();
    page_count += request.runs[i].count;
  }
  if (!is_sound || page_count > page_request::page_count_max) {
    failure_ = "a page request names pages that do not exist: the node's shared memory is damaged";
    return;
  }
  auto &rank = *ranks_[request.target];
  rank.requests.push_back({.request = &request});
  request_count_++;
  if (rank.current_phase == phase::resident)
    return;
  for (auto const &pages : request.pages())
    rank.extent = std::max(rank.extent, pages.end());
}

bool page_mover::are_resident(const rank_space &rank, page_run pages) const {
  for (uint32_t page = pages.first; page < pages.end(); page++) {
    if (rank.in_flight->test(page) || (rank.stored.test(page) && !rank.resident->test(page)))
      return false;
  }
  return true;
}

// Posts reads of pages that are not in DRAM and not being read. False: some reads could not be
// posted yet.
bool page_mover::post_reads(rank_space &rank, page_run pages) {
  for (uint32_t position = pages.first; position < pages.end();) {
    uint32_t const first = rank.stored.find(true, position, pages.end());
    if (first == pages.end())
      return true;
    uint32_t const end = std::min({rank.stored.find(false, first, pages.end()),
                                   rank.resident->find(true, first, pages.end()),
                                   rank.in_flight->find(true, first, pages.end())});
    if (end == first) {
      position = first + 1;
      continue;
    }
    if (!read(rank, {first, end - first}, purpose::serve))
      return false;
    rank.in_flight->set({first, end - first});
    position = end;
  }
  return true;
}

// False: the request uses pages of the process's memory, or no copy is available.
bool page_mover::begin_copy(rank_space &rank, active_request &active) {
  if (active.request->is_reading == 0 || rank.current_phase != phase::swapped_out ||
      free_copies_.empty())
    return false;
  for (auto const &pages : active.request->pages()) {
    bool const is_stored_only =
        rank.stored.find(false, pages.first, pages.end()) == pages.end() &&
        rank.resident->find(true, pages.first, pages.end()) == pages.end() &&
        rank.in_flight->find(true, pages.first, pages.end()) == pages.end();
    if (!is_stored_only)
      return false;
  }
  active.copy = free_copies_.back();
  free_copies_.pop_back();
  return true;
}

// The copy gets the bytes that the object has now. Meanwhile the process and others may write to
// these pages of its memory.
bool page_mover::advance_copy(rank_space &rank, active_request &active) {
  TND_ASSERT(active.is_copied() && active.copy < copies_.size() / node_table::copy_size);
  auto const runs = active.request->pages();
  uint64_t position = uint64_t{active.copy} * node_table::copy_size;
  for (uint32_t i = 0; i < active.next_run; i++)
    position += runs[i].size();
  bool has_posted = false;
  for (; active.next_run < runs.size(); active.next_run++) {
    chunk *const transfer = acquire(purpose::copy);
    if (transfer == nullptr)
      return has_posted;
    transfer->buffer = copies_.subspan(position).data();
    transfer->copy_request = active.request;
    assign(rank, *transfer, runs[active.next_run]);
    active.in_flight++;
    position += runs[active.next_run].size();
    has_posted = true;
    post(*transfer);
  }
  active.are_reads_posted = true;
  return has_posted;
}

void page_mover::complete_copy(rank_space &rank, chunk &transfer) {
  auto const it = std::find_if(rank.requests.begin(), rank.requests.end(), [&](auto &active) {
    return active.request == transfer.copy_request;
  });
  TND_ASSERT(it != rank.requests.end() && it->in_flight != 0);
  it->in_flight--;
  served_pages_ += transfer.pages.count;
  copied_pages_ += transfer.pages.count;
}

bool page_mover::advance_requests(rank_space &rank, page_mover_events &events) {
  bool has_changed = false;
  for (size_t i = 0; i < rank.requests.size() && failure_.empty();) {
    auto &active = rank.requests[i];
    if (active.is_released()) {
      release_request(rank, i, events);
      has_changed = true;
      continue;
    }
    i++;
    if (!active.is_served && rank.current_phase != phase::swapping_out)
      has_changed |= advance_request(rank, active, events);
  }
  return has_changed;
}

void page_mover::release_request(rank_space &rank, size_t index, page_mover_events &events) {
  TND_ASSERT(index < rank.requests.size() && request_count_ != 0);
  auto const &active = rank.requests[index];
  events.released.push_back(active.request);
  if (active.is_copied())
    free_copies_.push_back(active.copy);
  rank.requests.erase(rank.requests.begin() + ptrdiff_t(index));
  request_count_--;
}

bool page_mover::advance_request(rank_space &rank,
                                 active_request &active,
                                 page_mover_events &events) {
  TND_ASSERT(!active.is_served);
  if (active.is_copied() || (!active.are_reads_posted && begin_copy(rank, active)))
    return serve_copied(rank, active, events);
  return serve_in_memory(rank, active, events);
}

bool page_mover::serve_copied(rank_space &rank, active_request &active, page_mover_events &events) {
  bool const has_posted = !active.are_reads_posted && advance_copy(rank, active);
  if (!active.are_reads_posted || active.in_flight != 0 || !failure_.empty())
    return has_posted;
  active.request->copy = active.copy;
  mark_served(active, events);
  return true;
}

bool page_mover::serve_in_memory(rank_space &rank,
                                 active_request &active,
                                 page_mover_events &events) {
  if (rank.current_phase == phase::resident)
    return serve_left_out(rank, active, events);
  bool has_posted = false;
  auto const runs = active.request->pages();
  if (!active.are_reads_posted) {
    active.are_reads_posted = std::all_of(
        runs.begin(), runs.end(), [&](page_run pages) { return post_reads(rank, pages); });
    has_posted = active.are_reads_posted;
  }
  if (!std::all_of(
          runs.begin(), runs.end(), [&](page_run pages) { return are_resident(rank, pages); }))
    return has_posted;
  for (auto const &pages : runs) {
    rank.recently_used->set(pages);
    // Pages that were never touched will be now.
    rank.resident->for_each_run(
        false, pages, [&](page_run new_pages) { mark_resident(rank, new_pages); });
  }
  mark_served(active, events);
  return true;
}

// The process is running, or waits. Its other pages are in its memory.
bool page_mover::serve_left_out(rank_space &rank,
                                active_request &active,
                                page_mover_events &events) {
  bool has_posted = false;
  auto const runs = active.request->pages();
  if (!active.are_reads_posted) {
    active.are_reads_posted = std::all_of(
        runs.begin(), runs.end(), [&](page_run pages) { return post_left_out_reads(rank, pages); });
    has_posted = active.are_reads_posted;
  }
  bool const are_in_memory = std::all_of(runs.begin(), runs.end(), [&](page_run pages) {
    return rank.find_left_out(pages.first, pages.end()) == pages.end();
  });
  if (!are_in_memory)
    return has_posted;
  mark_served(active, events);
  return true;
}

// False: some reads could not be posted yet.
bool page_mover::post_left_out_reads(rank_space &rank, page_run pages) {
  uint32_t first = rank.find_left_out(pages.first, pages.end());
  while (first < pages.end()) {
    uint32_t const end = std::min(rank.left_out.find(false, first, pages.end()),
                                  rank.in_flight->find(true, first, pages.end()));
    if (end > first && !read(rank, {first, end - first}, purpose::serve))
      return false;
    rank.in_flight->set({first, end - first});
    first = rank.find_left_out(std::max(end, first + 1), pages.end());
  }
  return true;
}

void page_mover::mark_served(active_request &active, page_mover_events &events) {
  active.is_served = true;
  events.served.push_back(active.request);
}

bool page_mover::is_needed(const rank_space &rank, page_run pages) const {
  return std::any_of(rank.requests.begin(), rank.requests.end(), [&](auto &active) {
    if (active.is_copied())
      return false;
    auto const runs = active.request->pages();
    return std::any_of(
        runs.begin(), runs.end(), [&](page_run run) { return overlaps(run, pages); });
  });
}

bool page_mover::trim(uint64_t size) {
  bool has_changed = false;
  for (size_t remaining = cache_.size(); remaining != 0 && failure_.empty(); remaining--) {
    if (cached_pages_ * page_size <= size + pages_in_write_back_ * page_size)
      break;
    cached_run const oldest = cache_.front();
    cache_.pop_front();
    eviction const outcome = evict(oldest);
    if (outcome != eviction::begun)
      cache_.push_back(oldest);
    has_changed |= outcome != eviction::refused;
  }
  return has_changed;
}

// Pages that a request has used since the last trim are spared once.
page_mover::eviction page_mover::evict(const cached_run &run) {
  auto &rank = *ranks_[run.rank];
  if (rank.epoch != run.epoch)
    return eviction::begun;  // it does not belong to the cache any more
  if (is_needed(rank, run.pages))
    return eviction::refused;
  if (rank.recently_used->count_set(run.pages) != 0) {
    rank.recently_used->clear(run.pages);
    return eviction::spared;
  }
  if (rank.stored.count_set(run.pages) == run.pages.count) {
    TND_ASSERT(cached_pages_ >= run.pages.count);
    cached_pages_ -= run.pages.count;
    drop(rank, run.pages);
    return eviction::begun;
  }
  return write_back(rank, run.pages) ? eviction::begun : eviction::refused;
}

bool page_mover::write_back(rank_space &rank, page_run pages) {
  chunk *const transfer = acquire(purpose::write_back);
  if (transfer == nullptr)
    return false;
  assign(rank, *transfer, pages);
  if (status const code = rank.memory.read(pages, transfer->buffer); code != status::ok)
    record_failure(code, "copying", rank, pages);
  bool const is_zero = find_zero_page(false, transfer->buffer, 0, pages.count) == pages.count;
  if (!failure_.empty() || is_zero)
    release(*transfer);
  if (!failure_.empty())
    return false;
  if (is_zero) {
    cached_pages_ -= pages.count;
    drop_zeros(rank, pages);
    return true;
  }
  pages_in_write_back_ += pages.count;
  post(*transfer);
  return true;
}

// A request that came meanwhile may have written the pages again.
void page_mover::complete_write_back(rank_space &rank, chunk &transfer) {
  TND_ASSERT(pages_in_write_back_ >= transfer.pages.count);
  pages_in_write_back_ -= transfer.pages.count;
  written_back_pages_ += transfer.pages.count;
  if (rank.epoch != transfer.epoch)
    return;
  if (rank.recently_used->count_set(transfer.pages) != 0 || is_needed(rank, transfer.pages)) {
    cache_.push_back({rank.index, rank.epoch, transfer.pages});
    return;
  }
  rank.stored.set(transfer.pages);
  TND_ASSERT(cached_pages_ >= transfer.pages.count);
  cached_pages_ -= transfer.pages.count;
  drop(rank, transfer.pages);
}

}  // namespace tanada::onesided::swap
