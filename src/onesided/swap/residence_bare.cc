// A process that runs while its memory is away.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/swap/residence.hpp"

namespace tanada::comex::swap {
namespace {

constexpr uint32_t group_pages = 8;   // that come with one that is touched
constexpr size_t lent_max = 8;        // groups, until all comes
constexpr uint64_t touched_a_ns = 8;  // bytes that who works touches: who ran for less time than
                                      // that takes may have done without most
static_assert(lent_max < board::requests_of_rank);

}  // namespace

// What is on its way out gets there first: it would have to come back otherwise.
bool residence::go_bare() {
  std::lock_guard const lock{bare_};
  if (!can_be_bare_ || needs_.expects_all())
    return false;
  while (shared_.state(rank_) == rank_state::swap_out && shared_.failure() == nullptr)
    shared_.sleep(rank_, sleep_ns);
  if (shared_.state(rank_) != rank_state::swapped || shared_.failure() != nullptr ||
      !mine_.absent->watch())
    return false;
  is_bare_.store(true, std::memory_order_release);
  return true;
}

// False: another thread's touches have brought all of it.
bool residence::leave_bare() {
  std::lock_guard const lock{bare_};
  if (!is_bare())
    return false;
  depth_++;
  is_bare_.store(false, std::memory_order_release);
  needs_.learn(false);
  return_lent();
  return true;
}

// Before a wait, of who has all of it: `here` bytes.
void residence::learn(uint64_t here) {
  if (mine_.absent == nullptr)
    return;
  std::lock_guard const lock{bare_};
  bool const has_worked = shared_.time().now_ns() - came_ns_ >= here / touched_a_ns;
  needs_.learn(std::exchange(has_come_back_, false) || is_needed_.load(std::memory_order_relaxed) ||
               has_worked);
  is_needed_.store(false, std::memory_order_relaxed);
}

// Whoever has a page may have written it, and touches it no more.
void residence::return_lent() {
  for (auto const &each : lent_) {
    for (uint32_t const page : each.given) {
      mine_.absent->take(page);
      stored_[rank_].clear({page, 1});
    }
    shared_.done(*each.from);
  }
  lent_.clear();
}

status residence::come_back() {
  std::lock_guard const lock{bare_};
  return is_bare() ? come_back_locked() : status::ok;
}

// What it had goes first: pages that are needed stay in the cache, and it may wait for room.
status residence::come_back_locked() {
  return_lent();
  for (;;) {
    if (shared_.failure() != nullptr)
      return shared_.failed();
    if (shared_.try_enter(rank_))
      break;
    if (shared_.has_landed(rank_)) {
      mine_.absent->arm();
      shared_.arrived(rank_);
      continue;
    }
    shared_.sleep(rank_, queue_sleep_ns);
  }
  is_bare_.store(false, std::memory_order_release);
  mine_.absent->give_all();
  has_come_back_ = true;
  return status::ok;
}

void residence::never_bare() {
  if (mine_.absent == nullptr)
    return;
  std::lock_guard const lock{bare_};
  can_be_bare_ = false;
  if (is_bare())
    (void)come_back_locked();  // the board has failed, which the next wait says
}

// What was touched while it waits, by a thread that should not, comes when it runs next.
status residence::touched(uint32_t page) {
  std::lock_guard const lock{bare_};
  if (!is_bare())
    return status::ok;
  auto const has = [&](const lent &each) {
    auto const &run = each.from->runs[0];
    return page >= run.first && page < run.end();
  };
  auto found = std::find_if(lent_.begin(), lent_.end(), has);
  if (found == lent_.end()) {
    uint32_t const first = page / group_pages * group_pages;
    page_run const group{first, std::min(group_pages, stored_[rank_].page_count() - first)};
    // Who goes from one group to the next will touch many.
    bool const is_stream = !lent_.empty() && lent_.back().from->runs[0].end() == first &&
                           lent_.back().given.size() > group_pages / 2;
    request *const asked =
        lent_.size() < lent_max && !is_stream ? shared_.post(rank_, rank_, {&group, 1}) : nullptr;
    if (asked == nullptr)
      return come_back_locked();
    while (!board::is_granted(*asked)) {
      if (shared_.failure() != nullptr)
        return shared_.failed();
      shared_.sleep(rank_, sleep_ns);
    }
    lent_.push_back({asked, {}});
    found = lent_.end() - 1;
  }
  if (std::find(found->given.begin(), found->given.end(), page) == found->given.end())
    found->given.push_back(page);
  if (mine_.absent->give(page) == status::ok)
    return status::ok;
  shared_.fail(last_message().c_str());
  return shared_.failed();
}

}  // namespace tanada::comex::swap
