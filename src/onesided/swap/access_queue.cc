#include "onesided/swap/access_queue.hpp"

#include <algorithm>

namespace tanada::comex::swap {
namespace {

constexpr uint32_t window_pages_min = 16;  // that may be under way however small the cache is

}  // namespace

// Pieces are asked for in the order of the extents, as many as fit into a request at a time.
struct access_queue::pending {
  struct piece {
    size_t index;
    uint64_t skip, size;
  };
  struct flight {
    request *asked;
    std::vector<piece> pieces;
  };

  access what;
  size_t index = 0;  // the next piece to ask for
  uint64_t skip = 0;
  std::vector<flight> flights;

  bool is_asked() const noexcept {
    return index == what.extents.size();
  }
  bool is_done() const noexcept {
    return is_asked() && flights.empty();
  }
};

namespace {

// Runs of one request, none of a page twice.
struct run_list {
  uint32_t const page_count_max;
  bool const is_reading;
  std::vector<page_run> runs = {};
  uint32_t page_count = 0;

  bool add(page_run more) {
    for (auto const &each : runs) {
      if (more.first >= each.first && more.end() <= each.end())
        return true;
    }
    // What follows the last run makes it longer; what else overlaps is for another request.
    auto const last = runs.empty() ? page_run{} : runs.back();
    bool const follows = !runs.empty() && more.first >= last.first;
    bool const extends = follows && (more.first <= last.end() || bridges(more));
    page_run const fresh = extends ? page_run{last.end(), more.end() - last.end()} : more;
    for (auto const &each : runs) {
      if (fresh.first < each.end() && each.first < fresh.end())
        return false;
    }
    if (page_count + fresh.count > page_count_max ||
        (!extends && runs.size() == request::run_count_max))
      return false;
    page_count += fresh.count;
    if (extends)
      runs.back().count += fresh.count;
    else
      runs.push_back(more);
    return true;
  }

  // The pages between are read along: one operation of the store takes the time of a few pages.
  // Never more than are wanted.
  bool bridges(page_run more) const noexcept {
    constexpr uint32_t most = 8;
    uint32_t const between = more.first - runs.back().end();
    return is_reading && between <= std::min(most, more.count) &&
           page_count + between + more.count <= page_count_max;
  }
};

// So many bytes from `begin` on lie in `pages` pages at most, and end no number early.
uint64_t fitting(uint64_t begin, uint64_t size, uint32_t pages, uint32_t unit) noexcept {
  if (pages == 0)
    return 0;
  uint64_t const room = (begin / page_size + pages) * page_size - begin;
  return size <= room ? size : room / unit * unit;
}

}  // namespace

access_queue::access_queue(board &shared, uint32_t origin, std::span<page_bits> stored)
    : shared_{shared}, origin_{origin}, stored_{stored} {
  auto const &options = shared.options();
  uint64_t const running = std::min(shared.rank_count(), options.slots + 2),
                 share = options.cache_size / page_size / running / (options.has_servers ? 2 : 1);
  window_pages_ = uint32_t(std::clamp<uint64_t>(share, window_pages_min,
                                                request::page_count_max * board::requests_of_rank));
}

access_queue::~access_queue() = default;

void access_queue::mark(uint32_t target, std::span<const extent> extents) noexcept {
  for (auto const &each : extents)
    stored_[target].clear(pages_of(each.offset, each.size));
}

bool access_queue::begin(access what, bool may_be_direct) {
  auto const run = [&] {
    for (size_t i = 0; i < what.extents.size(); i++)
      what.part(i, 0, what.extents[i].size, nullptr);
  };
  if (may_be_direct && try_direct(what.target, what.is_writing, what.extents, run))
    return true;
  pending_.push_back(std::make_unique<pending>());
  pending_.back()->what = std::move(what);
  poll();
  return false;
}

// False: there is as much under way as may be.
bool access_queue::post_next(pending &of) {
  auto const &extents = of.what.extents;
  // Several at a time: while one is answered another is on its way.
  run_list runs{std::clamp(window_pages_ / 4, window_pages_min, request::page_count_max),
                !of.what.is_writing};
  std::vector<pending::piece> pieces;
  size_t index = of.index;
  uint64_t skip = of.skip;
  while (index < extents.size()) {
    auto const &each = extents[index];
    uint64_t const begin = each.offset + skip, left = each.size - skip;
    if (left > 0) {
      uint64_t const size =
          fitting(begin, left, runs.page_count_max - runs.page_count, of.what.unit);
      if (size == 0 || !runs.add(pages_of(begin, size)))
        break;
      pieces.push_back({index, skip, size});
      skip += size;
    }
    if (skip == each.size) {
      index++;
      skip = 0;
    }
  }
  if (!pieces.empty()) {
    if (!has_window(runs.page_count))
      return false;
    auto *const asked = shared_.post(origin_, of.what.target, runs.runs, !of.what.is_writing);
    if (asked == nullptr)
      return false;
    pages_asked_ += runs.page_count;
    of.flights.push_back({asked, std::move(pieces)});
  }
  of.index = index;
  of.skip = skip;
  return true;
}

void access_queue::reap(pending &of) {
  std::erase_if(of.flights, [&](const pending::flight &each) {
    if (!board::is_granted(*each.asked))
      return false;
    for (auto const &piece : each.pieces) {
      uint64_t const offset = of.what.extents[piece.index].offset + piece.skip;
      of.what.part(piece.index, piece.skip, piece.size, shared_.copied(*each.asked, offset));
    }
    if (of.what.is_writing) {
      for (auto const &run : each.asked->pages())
        stored_[of.what.target].clear(run);
    }
    pages_asked_ -= each.asked->page_count;
    shared_.done(*each.asked);
    return true;
  });
}

void access_queue::poll() {
  // In turn: behind one that has to wait to ask, nobody has asked.
  bool has_room = true;
  for (auto each = pending_.begin(); each != pending_.end() && has_room; ++each) {
    reap(**each);
    while (has_room && !(*each)->is_asked())
      has_room = post_next(**each);
  }
  std::erase_if(pending_, [](auto const &each) {
    if (!each->is_done())
      return false;
    if (each->what.end)
      each->what.end();
    return true;
  });
}

}  // namespace tanada::comex::swap
