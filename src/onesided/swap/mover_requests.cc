// Pages of who is away, for others, and which of them stay.
#include <algorithm>

#include "onesided/swap/mover_state.hpp"

namespace tanada::comex::swap {
namespace {

bool meet(page_run a, page_run b) noexcept {
  return a.first < b.end() && b.first < a.end();
}

}  // namespace

void mover::serve(request &which) {
  // Another process wrote it.
  bool is_sound = which.target < ranks_.size() && which.run_count <= request::run_count_max;
  uint64_t page_count = 0;
  for (uint32_t i = 0; is_sound && i < which.run_count; i++) {
    uint64_t const end = uint64_t(which.runs[i].first) + which.runs[i].count;
    is_sound = end <= ranks_[which.target]->memory.page_count();
    page_count += which.runs[i].count;
  }
  if (!is_sound || page_count > request::page_count_max) {
    failure_ = "a request for pages that there are not: memory of the node's processes is damaged";
    return;
  }
  auto &of = *ranks_[which.target];
  of.servings.push_back({.which = &which});
  serving_count_++;
  if (of.at == phase::whole)
    return;
  for (auto const &pages : which.pages())
    of.extent = std::max(of.extent, pages.end());
}

bool mover::is_there(const rank_space &of, page_run pages) const {
  for (uint32_t page = pages.first; page < pages.end(); page++) {
    if (of.flying->test(page) || (of.stored.test(page) && !of.here->test(page)))
      return false;
  }
  return true;
}

// Reads what is not there and is not on its way. False: not all is asked for yet.
bool mover::ask_for(rank_space &of, page_run pages) {
  for (uint32_t at = pages.first; at < pages.end();) {
    uint32_t const first = of.stored.find(true, at, pages.end());
    if (first == pages.end())
      return true;
    uint32_t const end = std::min({of.stored.find(false, first, pages.end()),
                                   of.here->find(true, first, pages.end()),
                                   of.flying->find(true, first, pages.end())});
    if (end == first) {
      at = first + 1;
      continue;
    }
    if (!read(of, {first, end - first}, purpose::serve))
      return false;
    of.flying->set({first, end - first});
    at = end;
  }
  return true;
}

// False: it takes pages of its process's memory, or there is no copy left.
bool mover::begin_copy(rank_space &of, serving &each) {
  if (each.which->is_reading == 0 || of.at != phase::away || free_copies_.empty())
    return false;
  for (auto const &pages : each.which->pages()) {
    bool const is_away = of.stored.find(false, pages.first, pages.end()) == pages.end() &&
                         of.here->find(true, pages.first, pages.end()) == pages.end() &&
                         of.flying->find(true, pages.first, pages.end()) == pages.end();
    if (!is_away)
      return false;
  }
  each.copy = free_copies_.back();
  free_copies_.pop_back();
  return true;
}

// What the object has now: its process, and others, may write to those pages of its memory
// meanwhile.
bool mover::advance_copy(rank_space &of, serving &each) {
  auto const wanted = each.which->pages();
  uint64_t at = uint64_t{each.copy} * board::copy_size;
  for (uint32_t i = 0; i < each.next; i++)
    at += wanted[i].size();
  bool has_asked = false;
  for (; each.next < wanted.size(); each.next++) {
    chunk *const which = acquire(purpose::copy);
    if (which == nullptr)
      return has_asked;
    which->rank = of.index;
    which->epoch = of.epoch;
    which->pages = wanted[each.next];
    which->buffer = copies_.subspan(at).data();
    which->copied_for = each.which;
    of.busy_count++;
    each.flying++;
    at += wanted[each.next].size();
    has_asked = true;
    post(*which);
  }
  each.is_asked = true;
  return has_asked;
}

void mover::complete_copy(rank_space &of, chunk &which) {
  auto const found = std::find_if(of.servings.begin(), of.servings.end(),
                                  [&](auto &each) { return each.which == which.copied_for; });
  found->flying--;
  served_pages_ += which.pages.count;
  copied_pages_ += which.pages.count;
}

bool mover::advance_requests(rank_space &of, mover_news &news) {
  bool has_changed = false;
  for (size_t i = 0; i < of.servings.size() && failure_.empty();) {
    auto &each = of.servings[i];
    if (each.is_served && each.which->at.load(std::memory_order_acquire) == request::step::done) {
      news.released.push_back(each.which);
      if (each.is_copied())
        free_copies_.push_back(each.copy);
      of.servings.erase(of.servings.begin() + ptrdiff_t(i));
      serving_count_--;
      has_changed = true;
      continue;
    }
    i++;
    if (each.is_served || of.at == phase::leaving)
      continue;
    if (each.is_copied() || (!each.is_asked && begin_copy(of, each))) {
      has_changed |= !each.is_asked && advance_copy(of, each);
      if (!each.is_asked || each.flying != 0 || !failure_.empty())
        continue;
      each.is_served = true;
      each.which->copy = each.copy;
      news.served.push_back(each.which);
      has_changed = true;
      continue;
    }
    auto const wanted = each.which->pages();
    if (of.at != phase::whole) {
      if (!each.is_asked) {
        each.is_asked = std::all_of(wanted.begin(), wanted.end(),
                                    [&](page_run pages) { return ask_for(of, pages); });
        has_changed |= each.is_asked;
      }
      if (!std::all_of(wanted.begin(), wanted.end(),
                       [&](page_run pages) { return is_there(of, pages); }))
        continue;
      for (auto const &pages : wanted) {
        of.used->set(pages);
        // Those that were never touched will be now.
        of.here->for_each_run(false, pages, [&](page_run fresh) { keep(of, fresh); });
      }
    }
    each.is_served = true;
    news.served.push_back(each.which);
    has_changed = true;
  }
  return has_changed;
}

bool mover::is_needed(const rank_space &of, page_run pages) const {
  return std::any_of(of.servings.begin(), of.servings.end(), [&](auto &each) {
    if (each.is_copied())
      return false;
    auto const wanted = each.which->pages();
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](page_run one) { return meet(one, pages); });
  });
}

bool mover::trim(uint64_t size) {
  bool has_changed = false;
  for (size_t left = cache_.size(); left != 0 && failure_.empty(); left--) {
    if (cached_pages_ * page_size <= size + leaving_pages_ * page_size)
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
mover::eviction mover::evict(const cached_run &which) {
  auto &of = *ranks_[which.rank];
  if (of.epoch != which.epoch)
    return eviction::begun;  // it is no longer the cache's
  if (is_needed(of, which.pages))
    return eviction::refused;
  if (of.used->count_set(which.pages) != 0) {
    of.used->clear(which.pages);
    return eviction::spared;
  }
  if (of.stored.count_set(which.pages) == which.pages.count) {
    cached_pages_ -= which.pages.count;
    drop(of, which.pages);
    return eviction::begun;
  }
  if (!write(of, which.pages, purpose::write_back))
    return eviction::refused;
  leaving_pages_ += which.pages.count;
  return eviction::begun;
}

// Whoever asked for it meanwhile may have written it once more.
void mover::complete_write_back(rank_space &of, chunk &which) {
  leaving_pages_ -= which.pages.count;
  written_back_pages_ += which.pages.count;
  if (of.epoch != which.epoch)
    return;
  if (of.used->count_set(which.pages) != 0 || is_needed(of, which.pages)) {
    cache_.push_back({of.index, of.epoch, which.pages});
    return;
  }
  of.stored.set(which.pages);
  cached_pages_ -= which.pages.count;
  drop(of, which.pages);
}

}  // namespace tanada::comex::swap
