// Page requests of one origin: accesses are split into pieces, requested page by page, and carried
// out when granted.
#include "onesided/swap/page_request_queue.hpp"

#include <algorithm>

namespace tanada::onesided::swap {
namespace {

constexpr uint32_t window_pages_min = 16;  // may be requested however small the cache is

}  // namespace

// Pieces are requested in the order of the extents, as many at a time as fit into a request.
struct page_request_queue::pending_access {
  struct piece {
    size_t index;
    uint64_t skip, size;
  };
  struct flight {
    page_request *request;
    std::vector<piece> pieces;
  };

  page_access access;
  size_t index = 0;  // the next piece to request
  uint64_t skip = 0;
  std::vector<flight> flights;

  bool is_posted() const noexcept {
    return index == access.extents.size();
  }
  bool is_done() const noexcept {
    return is_posted() && flights.empty();
  }
};

namespace {

// The runs of one request. No page is in two of them.
struct run_list {
  uint32_t const page_count_max;
  bool const is_reading;
  std::vector<page_run> runs = {};
  uint32_t page_count = 0;

  bool add(page_run added) {
    if (contains(added))
      return true;
    // A run that follows the last one extends it. Any other overlapping run is left for another
    // request.
    auto const last = runs.empty() ? page_run{} : runs.back();
    bool const follows = !runs.empty() && added.first >= last.first;
    bool const extends = follows && (added.first <= last.end() || bridges(added));
    page_run const new_pages = extends ? page_run{last.end(), added.end() - last.end()} : added;
    if (overlaps_any(new_pages))
      return false;
    if (page_count + new_pages.count > page_count_max ||
        (!extends && runs.size() == page_request::run_count_max))
      return false;
    page_count += new_pages.count;
    if (extends)
      runs.back().count += new_pages.count;
    else
      runs.push_back(added);
    return true;
  }

  bool contains(page_run added) const noexcept {
    return std::any_of(runs.begin(), runs.end(), [added](page_run run) {
      return added.first >= run.first && added.end() <= run.end();
    });
  }

  bool overlaps_any(page_run added) const noexcept {
    return std::any_of(runs.begin(), runs.end(), [added](page_run run) {
      return added.first < run.end() && run.first < added.end();
    });
  }

  // A read request includes the few pages between two runs, because one store operation takes the
  // time of several pages. It adds at most as many pages as are requested.
  bool bridges(page_run next) const noexcept {
    TND_ASSERT(!runs.empty());
    constexpr uint32_t bridge_max = 8;
    uint32_t const gap = next.first - runs.back().end();
    return is_reading && gap <= std::min(bridge_max, next.count) &&
           page_count + gap + next.count <= page_count_max;
  }
};

// The number of bytes from `begin` on that lie in at most `pages` pages, without splitting a unit.
uint64_t fitting_size(uint64_t begin, uint64_t size, uint32_t pages, uint32_t unit) noexcept {
  if (pages == 0)
    return 0;
  uint64_t const capacity = (begin / page_size + pages) * page_size - begin;
  return size <= capacity ? size : capacity / unit * unit;
}

}  // namespace

page_request_queue::page_request_queue(node_table &table,
                                       uint32_t origin,
                                       std::span<page_bits> stored,
                                       std::span<page_bits> left_out)
    : table_{table}, origin_{origin}, stored_{stored}, left_out_{left_out} {
  TND_ASSERT(origin < table.origin_count());
  auto const &options = table.options();
  uint64_t const running = std::min(table.rank_count(), options.slots + 2),
                 share = options.cache_size / page_size / running /
                         (options.has_remote_origins ? 2 : 1);
  window_pages_ = uint32_t(std::clamp<uint64_t>(
      share, window_pages_min, page_request::page_count_max * node_table::requests_per_origin));
}

page_request_queue::~page_request_queue() = default;

bool page_request_queue::are_in_memory(uint32_t target,
                                       std::span<const extent> extents) const noexcept {
  TND_ASSERT(target < left_out_.size());
  bool const are_in =
      !extents.empty() && std::all_of(extents.begin(), extents.end(), [&](const extent &range) {
        page_run const pages = pages_of(range.offset, range.size);
        return left_out_[target].find(true, pages.first, pages.end()) == pages.end();
      });
  std::atomic_thread_fence(std::memory_order_acquire);  // before the pages are accessed
  return are_in;
}

void page_request_queue::mark_written(uint32_t target, std::span<const extent> extents) noexcept {
  TND_ASSERT(target < stored_.size());
  for (auto const &range : extents) {
    stored_[target].clear(pages_of(range.offset, range.size));
  }
}

bool page_request_queue::begin(page_access access, bool may_be_direct) {
  TND_ASSERT(access.on_piece != nullptr);
  TND_ASSERT(access.unit != 0);
  auto const run = [&] {
    for (size_t i = 0; i < access.extents.size(); i++) {
      access.on_piece(i, 0, access.extents[i].size, nullptr);
    }
  };
  if (may_be_direct && try_direct(access.target, access.is_writing, access.extents, run))
    return true;
  pending_.push_back(std::make_unique<pending_access>());
  pending_.back()->access = std::move(access);
  poll();
  return false;
}

// The pieces of one request, and the piece that follows them.
struct page_request_queue::request_plan {
  run_list runs;
  std::vector<pending_access::piece> pieces = {};
  size_t index;
  uint64_t skip;
};

page_request_queue::request_plan page_request_queue::plan_next(
    const pending_access &pending) const {
  auto const &extents = pending.access.extents;
  // Use several requests at a time: while one is being carried out, another is in transit.
  request_plan plan{
      .runs = {std::clamp(window_pages_ / 4, window_pages_min, page_request::page_count_max),
               !pending.access.is_writing},
      .index = pending.index,
      .skip = pending.skip};
  auto &runs = plan.runs;
  while (plan.index < extents.size()) {
    auto const &range = extents[plan.index];
    TND_ASSERT(plan.skip <= range.size);
    uint64_t const begin = range.offset + plan.skip, rest = range.size - plan.skip;
    if (rest > 0) {
      uint64_t const size =
          fitting_size(begin, rest, runs.page_count_max - runs.page_count, pending.access.unit);
      if (size == 0 || !runs.add(pages_of(begin, size)))
        break;
      plan.pieces.push_back({plan.index, plan.skip, size});
      plan.skip += size;
    }
    if (plan.skip == range.size) {
      plan.index++;
      plan.skip = 0;
    }
  }
  return plan;
}

// False: the maximum number of pages or requests is outstanding.
bool page_request_queue::post_next(pending_access &pending) {
  TND_ASSERT(!pending.is_posted());
  auto plan = plan_next(pending);
  if (!plan.pieces.empty()) {
    if (!has_window(plan.runs.page_count))
      return false;
    auto *const request =
        table_.post(origin_, pending.access.target, plan.runs.runs, !pending.access.is_writing);
    if (request == nullptr)
      return false;
    pages_outstanding_ += plan.runs.page_count;
    pending.flights.push_back({request, std::move(plan.pieces)});
  }
  pending.index = plan.index;
  pending.skip = plan.skip;
  return true;
}

void page_request_queue::reap(pending_access &pending) {
  std::erase_if(pending.flights, [&](const pending_access::flight &flight) {
    if (!node_table::is_granted(*flight.request))
      return false;
    for (auto const &piece : flight.pieces) {
      uint64_t const offset = pending.access.extents[piece.index].offset + piece.skip;
      pending.access.on_piece(
          piece.index, piece.skip, piece.size, table_.copy_address(*flight.request, offset));
    }
    if (pending.access.is_writing) {
      for (auto const &run : flight.request->pages())
        stored_[pending.access.target].clear(run);
    }
    TND_ASSERT(pages_outstanding_ >= flight.request->page_count);
    pages_outstanding_ -= flight.request->page_count;
    table_.complete_request(*flight.request);
    return true;
  });
}

void page_request_queue::poll() {
  // Accesses are posted in order. After one that cannot be posted yet, no other has posted
  // requests.
  bool may_post = true;
  for (auto it = pending_.begin(); it != pending_.end() && may_post; ++it) {
    reap(**it);
    while (may_post && !(*it)->is_posted())
      may_post = post_next(**it);
  }
  std::erase_if(pending_, [](auto const &pending) {
    if (!pending->is_done())
      return false;
    if (pending->access.on_complete)
      pending->access.on_complete();
    return true;
  });
}

}  // namespace tanada::onesided::swap
