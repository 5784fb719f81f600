// The simulated agent: a move takes as long as its pages, and several run at a time.
#include <algorithm>

#include "comex_swap_harness.hpp"

namespace tanada::test {

using swap::move_order;
using swap::page_size;

uint64_t swap_heap::touched_count() const {
  return uint64_t(std::count(is_touched.begin(), is_touched.end(), true));
}

void swap_heap::write(uint32_t page) {
  constexpr uint64_t zero_period = 4;
  uint64_t const number = ++write_count[page];
  memory[page] = number % zero_period == 0 ? 0 : number;
  truth[page] = memory[page];
}

void swap_run::found(const std::string &what) {
  if (why_.empty())
    why_ = what + " at " + std::to_string(world_.now_ns() / 1000) + " us";
}

uint64_t swap_run::cached_bytes() const {
  uint64_t pages = 0;
  for (auto const &each : heaps_)
    pages += uint64_t(std::count(each.is_cached.begin(), each.is_cached.end(), true));
  return pages * page_size;
}

// All memory in DRAM, and memory being moved there, is within the budget at every step.
void swap_run::check_budget() {
  uint64_t pages = cached_bytes() / page_size;
  for (auto const &each : heaps_)
    pages += each.is_here ? each.touched_count() : each.coming;
  pages += fixed_pages_;
  uint64_t const limit = board_->options().budget / page_size;
  if (pages > limit && board_->counters().beyond_budget == 0) {
    found(std::to_string(pages) + " pages are in DRAM, which is to have " + std::to_string(limit));
  }
}

// Pinned memory grows in small steps, as with small allocations, if there is free memory; the node
// table is updated first. It also shrinks.
void swap_run::change_fixed() {
  constexpr uint64_t period_ns = 20'000'000;
  if (chosen_.fixed_pages_max == 0 || planted_ == swap_plant::cache_beside_budget ||
      clock_.now_ns() - fixed_since_ns_ < period_ns)
    return;
  fixed_since_ns_ = clock_.now_ns();
  uint64_t const wanted = board_->reserved() / page_size - chosen_.cache_pages;
  uint64_t used =
      cached_bytes() / page_size - std::min(cached_bytes() / page_size, chosen_.cache_pages);
  for (uint32_t i = 0; i < chosen_.ranks; i++)
    used += swap::charge_of(board_->snapshot(i), board_->budget_for_ranks()) / page_size;
  if (used * page_size <= board_->budget_for_ranks())
    fixed_pages_ = wanted;
  board_->set_reserved((chosen_.cache_pages + world_.random.between(0, chosen_.fixed_pages_max)) *
                       page_size);
  fixed_pages_ = std::min(fixed_pages_, board_->reserved() / page_size - chosen_.cache_pages);
}

void swap_run::drop_page(uint32_t rank, uint32_t page) {
  auto &of = heaps_[rank];
  if (!of.is_touched[page])
    return;
  bool const is_zero = of.memory[page] == 0;
  if (is_zero && planted_ != swap_plant::zeros_as_stored) {
    stored_[rank].clear({page, 1});
    of.is_touched[page] = false;
    return;
  }
  if (!stored_[rank].test(page)) {
    if (!is_zero)
      of.store[page] = of.memory[page];
    stored_[rank].set({page, 1});
  }
  of.memory[page] = swap_heap::nothing;
}

void swap_run::move_out(uint32_t rank) {
  auto &of = heaps_[rank];
  for (uint32_t i = 0; i < chosen_.pages; i++)
    drop_page(rank, i);
  of.is_here = false;
  left_out_[rank].clear({0, chosen_.pages});
  uint64_t const size = of.touched_count() * page_size;
  board_->complete_move({move_order::direction::swap_out, rank},
                        {.resident_size = 0, .swapped_size = size, .moved_size = size});
}

// True: the page stays in the store while its process runs.
bool swap_run::leave_out(uint32_t rank, uint32_t page) {
  auto &of = heaps_[rank];
  bool const may_stay = of.is_touched[page] && !of.is_cached[page] && stored_[rank].test(page);
  if (!may_stay || !world_.random.chance(25))
    return false;
  left_out_[rank].set({page, 1});
  return true;
}

void swap_run::move_in(uint32_t rank) {
  auto &of = heaps_[rank];
  uint64_t left_out_size = 0;
  for (uint32_t i = 0; i < chosen_.pages; i++) {
    if (leave_out(rank, i)) {
      left_out_size += page_size;
      continue;
    }
    if (of.is_touched[i] && (!of.is_cached[i] || planted_ == swap_plant::early_in))
      of.memory[i] = of.store[i];
    of.is_cached[i] = false;
  }
  of.is_here = true;
  of.coming = 0;
  uint64_t const size = of.touched_count() * page_size;
  board_->complete_move(
      {move_order::direction::swap_in, rank},
      {.resident_size = size,
       .swapped_size = 0,
       .moved_size = size,
       .left_out_size = planted_ == swap_plant::hidden_left_out ? 0 : left_out_size});
}

void swap_run::take(const move_order &which) {
  auto &of = heaps_[which.rank];
  uint64_t const pages = of.touched_count();
  if (which.dir == move_order::direction::swap_in)
    of.coming = pages;
  check_budget();
  uint64_t const duration = 100'000 + pages * chosen_.page_ns * world_.random.between(1, 3);
  later(clock_.now_ns() + duration, [this, which] {
    if (kind_ == swap_weather::failing && world_.random.chance(10))
      return board_->fail("the store is full");
    if (which.dir == move_order::direction::swap_out)
      move_out(which.rank);
    else
      move_in(which.rank);
  });
}

// The pages of a reply fit into the cache, or the reply is the only one.
bool swap_run::has_room(uint64_t size) {
  uint64_t const now = cached_bytes() + promised_;
  uint64_t const allowed = board_->update_cache_size(now + size);
  if (now + size > allowed)
    trim(allowed - std::min(allowed, promised_ + size));
  uint64_t const after = cached_bytes() + promised_;
  bool const has_room = after + size <= allowed || after == 0;
  (void)board_->update_cache_size(has_room ? after + size : after);
  return has_room;
}

void swap_run::serve(swap::page_request &which) {
  // A resident target needs no room in the cache.
  uint64_t const size = heaps_[which.target].is_here ? 0 : which.page_count * page_size;
  promised_ += size;
  later(clock_.now_ns() + world_.random.between(50'000, 400'000), [this, &which, size] {
    auto &of = heaps_[which.target];
    promised_ -= size;
    for (auto const &run : which.pages()) {
      for (uint32_t i = run.first; i < run.end(); i++) {
        if (!of.is_here && !of.is_cached[i]) {
          if (of.is_touched[i])
            of.memory[i] = of.store[i];
          of.is_touched[i] = true;
          of.is_cached[i] = true;
        }
        if (of.is_here && left_out_[which.target].test(i)) {
          of.memory[i] = of.store[i];
          left_out_[which.target].clear({i, 1});
        }
        of.users[i]++;
        of.used_at[i] = ++uses_;
      }
    }
    board_->grant(which);
    granted_.push_back(&which);
  });
}

void swap_run::recycle() {
  std::erase_if(granted_, [&](swap::page_request *each) {
    if (!swap::node_table::is_complete(*each))
      return false;
    for (auto const &run : each->pages()) {
      for (uint32_t i = run.first; i < run.end(); i++)
        heaps_[each->target].users[i]--;
    }
    board_->recycle(*each);
    return true;
  });
}

// The oldest pages are evicted from the cache.
void swap_run::trim(uint64_t to_size) {
  uint64_t cached = cached_bytes();
  while (cached > to_size) {
    swap_heap *oldest = nullptr;
    uint32_t rank = 0, page = 0;
    for (uint32_t r = 0; r < chosen_.ranks; r++) {
      auto &of = heaps_[r];
      for (uint32_t i = 0; i < chosen_.pages; i++) {
        // A process that is swapped in takes its pages with it.
        if (!of.is_cached[i] || of.users[i] > 0 || of.coming > 0)
          continue;
        if (oldest != nullptr && oldest->used_at[page] <= of.used_at[i])
          continue;
        oldest = &of;
        rank = r;
        page = i;
      }
    }
    if (oldest == nullptr)
      break;
    if (planted_ == swap_plant::lost_write_back)
      stored_[rank].set({page, 1});
    drop_page(rank, page);
    oldest->is_cached[page] = false;
    cached -= page_size;
  }
}

void swap_run::agent() {
  while (over_ < chosen_.ranks) {
    if (board_->failure() != nullptr)
      return;
    recycle();
    change_fixed();
    while (auto const next = board_->next_move())
      take(*next);
    while (auto *const asked = board_->next_request())
      asked_.push_back(asked);
    std::erase_if(asked_, [this](swap::page_request *asked) {
      bool const is_here = heaps_[asked->target].is_here;
      if (is_here)
        serve(*asked);
      return is_here;
    });
    while (!asked_.empty() && has_room(asked_.front()->page_count * page_size)) {
      serve(*asked_.front());
      asked_.erase(asked_.begin());
    }
    uint64_t const now = cached_bytes() + promised_, allowed = board_->update_cache_size(now);
    if (now > allowed)
      trim(allowed - std::min(allowed, promised_));
    (void)board_->update_cache_size(cached_bytes() + promised_);
    check_budget();
    board_->sleep_agent(100'000);
  }
}

}  // namespace tanada::test
