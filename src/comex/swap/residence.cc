#include "comex/swap/residence.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "port/thread/thread.hpp"

namespace tanada::comex::swap {
namespace {

constexpr uint64_t look_ns = 30'000, sleep_ns = 1'000'000;
constexpr uint32_t window_pages_min = 16;  // that may be under way however small the cache is

}  // namespace

// Pieces are asked for in the order of the extents, as many as fit into a request at a time.
struct residence::pending {
  struct piece {
    size_t index;
    uint64_t skip, size;
  };
  struct flight {
    request *asked;
    std::vector<piece> pieces;
  };

  access what;
  size_t index = 0;   // the next piece to ask for
  uint64_t skip = 0;
  std::vector<flight> flights;

  bool is_asked() const noexcept { return index == what.extents.size(); }
  bool is_done() const noexcept { return is_asked() && flights.empty(); }
};

namespace {

// Runs of one request, none of a page twice.
struct run_list {
  uint32_t const page_count_max;
  std::vector<page_run> runs = {};
  uint32_t page_count = 0;

  bool add(page_run more) {
    for (auto const &each : runs) {
      if (more.first >= each.first && more.end() <= each.end()) return true;
    }
    // What follows the last run makes it longer; what else overlaps is for another request.
    auto const last = runs.empty() ? page_run{} : runs.back();
    bool const extends = !runs.empty() && more.first >= last.first && more.first <= last.end();
    page_run const fresh = extends ? page_run{last.end(), more.end() - last.end()} : more;
    for (auto const &each : runs) {
      if (fresh.first < each.end() && each.first < fresh.end()) return false;
    }
    if (page_count + fresh.count > page_count_max || (!extends && runs.size() == request::run_count_max)) return false;
    page_count += fresh.count;
    if (extends) runs.back().count += fresh.count;
    else runs.push_back(more);
    return true;
  }
};

// So many bytes from `begin` on lie in `pages` pages at most, and end no number early.
uint64_t fitting(uint64_t begin, uint64_t size, uint32_t pages, uint32_t unit) noexcept {
  if (pages == 0) return 0;
  uint64_t const room = (begin / page_size + pages) * page_size - begin;
  return size <= room ? size : room / unit * unit;
}

}  // namespace

residence::residence(board &shared, uint32_t rank, std::span<page_bits> stored, own_memory mine)
    : shared_{shared}, rank_{rank}, stored_{stored}, mine_{std::move(mine)} {
  uint64_t const share = shared.options().cache_size / page_size / (2 * shared.rank_count());
  window_pages_ = uint32_t(std::clamp<uint64_t>(share, window_pages_min, request::page_count_max * board::requests_of_rank));
}

residence::~residence() = default;

status residence::start(int32_t process_id) {
  depth_ = 1;
  shared_.start(rank_, process_id);
  TND_TRY(enter());
  mine_.arm();
  return status::ok;
}

void residence::finish() {
  shared_.finish(rank_);
  depth_ = 1;  // for ever: what comes later waits for nobody
}

void residence::leave(wait_kind kind) {
  if (depth_++ > 0) return;
  shared_.touched(rank_, mine_.here());
  shared_.leave(rank_, kind);
}

void residence::attend() {
  if (!shared_.should_prepare(rank_)) return;
  mine_.collect();
  shared_.touched(rank_, mine_.here());
  shared_.prepared(rank_);
}

status residence::enter() {
  TND_ASSERT(depth_ > 0);
  if (depth_ > 1) {
    depth_--;
    return status::ok;
  }
  for (;;) {
    if (shared_.failure() != nullptr) return shared_.failed();
    if (shared_.try_enter(rank_)) break;
    attend();
    if (shared_.has_landed(rank_)) {
      mine_.arm();
      shared_.arrived(rank_);
      continue;
    }
    shared_.sleep(rank_, sleep_ns);
  }
  depth_ = 0;
  return status::ok;
}

status residence::make_way() {
  if (depth_ > 0) return status::ok;
  leave(wait_kind::others);
  auto &time = shared_.time();
  // Long enough to be chosen; then there is no more to see than who is first.
  uint64_t const until_ns = time.now_ns() + 4 * shared_.options().patience_ns;
  for (;;) {
    rank_state const now = shared_.state(rank_);
    bool const is_chosen = now == rank_state::swap_out_wait || now == rank_state::swap_out;
    if (shared_.failure() != nullptr || is_away(now) || (!is_chosen && time.now_ns() >= until_ns)) break;
    // What was chosen and is not needed any more stays.
    if (now == rank_state::swap_out_wait && time.now_ns() >= until_ns + 100 * sleep_ns) break;
    attend();
    shared_.sleep(rank_, sleep_ns);
  }
  return enter();
}

status residence::reserve(uint64_t bytes, wait_kind kind) {
  switch (shared_.try_reserve(rank_, bytes)) {
    case board::room::granted: return status::ok;
    case board::room::never:
      return fail(status::no_memory, "%llu bytes for process %u, which has %llu, are more than the %llu of TND_COMEX_MEMORY",
                  static_cast<unsigned long long>(bytes), rank_, static_cast<unsigned long long>(shared_.look(rank_).allocated),
                  static_cast<unsigned long long>(shared_.options().budget));
    case board::room::wait: break;
  }
  leave(kind);
  return enter();
}

void residence::mark(uint32_t target, std::span<const extent> extents) noexcept {
  for (auto const &each : extents) stored_[target].clear(pages_of(each.offset, each.size));
}

bool residence::begin(access what) {
  auto const run = [&] {
    for (size_t i = 0; i < what.extents.size(); i++) what.part(i, 0, what.extents[i].size);
  };
  if (what.target == rank_) {
    run();
    return true;
  }
  if (try_direct(what.target, what.is_writing, what.extents, run)) return true;
  pending_.push_back(std::make_unique<pending>());
  pending_.back()->what = std::move(what);
  poll();
  return false;
}

// False: this process has as much under way as it may.
bool residence::post_next(pending &of) {
  auto const &extents = of.what.extents;
  // Several at a time: while one is answered another is on its way.
  run_list runs{std::clamp(window_pages_ / 4, window_pages_min, request::page_count_max)};
  std::vector<pending::piece> pieces;
  size_t index = of.index;
  uint64_t skip = of.skip;
  while (index < extents.size()) {
    auto const &each = extents[index];
    uint64_t const begin = each.offset + skip, left = each.size - skip;
    if (left > 0) {
      uint64_t const size = fitting(begin, left, runs.page_count_max - runs.page_count, of.what.unit);
      if (size == 0 || !runs.add(pages_of(begin, size))) break;
      pieces.push_back({index, skip, size});
      skip += size;
    }
    if (skip == each.size) {
      index++;
      skip = 0;
    }
  }
  if (!pieces.empty()) {
    if (!has_window(runs.page_count)) return false;
    auto *const asked = shared_.post(rank_, of.what.target, runs.runs);
    if (asked == nullptr) return false;
    pages_asked_ += runs.page_count;
    of.flights.push_back({asked, std::move(pieces)});
  }
  of.index = index;
  of.skip = skip;
  return true;
}

void residence::reap(pending &of) {
  std::erase_if(of.flights, [&](const pending::flight &each) {
    if (!board::is_granted(*each.asked)) return false;
    for (auto const &piece : each.pieces) of.what.part(piece.index, piece.skip, piece.size);
    if (of.what.is_writing) {
      for (auto const &run : each.asked->pages()) stored_[of.what.target].clear(run);
    }
    pages_asked_ -= each.asked->page_count;
    shared_.done(*each.asked);
    return true;
  });
}

void residence::poll() {
  // In turn: behind one that has to wait to ask, nobody has asked.
  bool has_room = true;
  for (auto each = pending_.begin(); each != pending_.end() && has_room; ++each) {
    reap(**each);
    while (has_room && !(*each)->is_asked()) has_room = post_next(**each);
  }
  while (!pending_.empty() && pending_.front()->is_done()) pending_.pop_front();
}

status residence::complete() {
  auto &time = shared_.time();
  uint64_t const until_ns = time.now_ns() + look_ns;
  while (!pending_.empty() && time.now_ns() < until_ns) {
    poll();
    port::spin_pause();
  }
  if (pending_.empty()) return status::ok;
  leave(wait_kind::served);
  for (;;) {
    poll();
    if (pending_.empty()) break;
    if (shared_.failure() != nullptr) return shared_.failed();
    shared_.sleep(rank_, sleep_ns);
  }
  return enter();
}

}  // namespace tanada::comex::swap
