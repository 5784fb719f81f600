#include "onesided/swap/residence.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/thread.hpp"

namespace tanada::comex::swap {
namespace {

constexpr uint64_t ready_poll_ns = 30'000;

}  // namespace

residence::residence(board &shared, uint32_t rank, std::span<page_bits> stored, own_memory mine)
    : shared_{shared},
      rank_{rank},
      stored_{stored},
      mine_{std::move(mine)},
      asks_{shared, rank, stored} {}

status residence::start(int32_t process_id) {
  depth_ = 1;
  shared_.start(rank_, process_id);
  TND_TRY(enter());
  mine_.arm();
  return status::ok;
}

void residence::finish() {
  never_bare();
  shared_.finish(rank_);
  depth_ = 1;  // for ever: what comes later waits for nobody
}

void residence::leave(wait_kind kind) {
  if (depth_ == 0 && is_bare()) {
    // Where it cannot come back the board has failed, which enter() says.
    bool const may_stay_away = kind == wait_kind::others || come_back() != status::ok;
    if (may_stay_away && leave_bare())
      return;
  }
  if (depth_++ > 0)
    return;
  uint64_t const here = mine_.here();
  if (kind == wait_kind::others)
    learn(here);
  shared_.touched(rank_, here);
  shared_.leave(rank_, kind);
}

void residence::attend() {
  if (!shared_.should_prepare(rank_))
    return;
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
  if (mine_.absent != nullptr && go_bare()) {
    depth_ = 0;
    return status::ok;
  }
  for (;;) {
    if (shared_.failure() != nullptr)
      return shared_.failed();
    if (shared_.try_enter(rank_))
      break;
    attend();
    if (shared_.has_landed(rank_)) {
      if (mine_.absent != nullptr)
        mine_.absent->arm();
      else
        mine_.arm();
      shared_.arrived(rank_);
      continue;
    }
    shared_.sleep(rank_, queue_sleep_ns);  // whatever concerns it rings, and it is one of many
  }
  if (mine_.absent != nullptr)
    mine_.absent->give_all();
  came_ns_ = shared_.time().now_ns();
  depth_ = 0;
  return status::ok;
}

status residence::make_way() {
  if (depth_ > 0)
    return status::ok;
  leave(wait_kind::others);
  auto &time = shared_.time();
  // Long enough to be chosen; then there is no more to see than who is first.
  uint64_t const until_ns = time.now_ns() + 4 * shared_.options().patience_ns;
  for (;;) {
    rank_state const now = shared_.state(rank_);
    bool const is_chosen = now == rank_state::swap_out_wait || now == rank_state::swap_out;
    if (shared_.failure() != nullptr || is_away(now) || (!is_chosen && time.now_ns() >= until_ns))
      break;
    // What was chosen and is not needed any more stays.
    if (now == rank_state::swap_out_wait && time.now_ns() >= until_ns + 100 * sleep_ns)
      break;
    attend();
    shared_.sleep(rank_, sleep_ns);
  }
  return enter();
}

status residence::reserve(uint64_t bytes, wait_kind kind) {
  TND_TRY(be_whole());
  switch (shared_.try_reserve(rank_, bytes)) {
    case board::room::granted: return status::ok;
    case board::room::never:
      return fail(status::no_memory,
                  "%llu bytes for process %d, which has %llu, are more than the %llu of "
                  "TND_COMEX_MEMORY, of which %llu are reserved for memory "
                  "that cannot leave: set TND_COMEX_MEMORY to more than the sum",
                  static_cast<unsigned long long>(bytes), shared_.number_of(rank_),
                  static_cast<unsigned long long>(shared_.look(rank_).allocated),
                  static_cast<unsigned long long>(shared_.options().budget),
                  static_cast<unsigned long long>(shared_.reserved()));
    case board::room::wait: break;
  }
  leave(kind);
  TND_TRY(enter());
  return be_whole();  // which the room comes with
}

bool residence::begin(access what) {
  if (what.target != rank_) {
    // Where it cannot be whole the board has failed, which complete() says.
    return asks_.begin(std::move(what), be_whole() == status::ok);
  }
  for (size_t i = 0; i < what.extents.size(); i++)
    what.part(i, 0, what.extents[i].size, nullptr);
  return true;
}

status residence::complete() {
  auto &time = shared_.time();
  uint64_t const until_ns = time.now_ns() + ready_poll_ns;
  while (!is_complete() && time.now_ns() < until_ns) {
    poll();
    port::spin_pause();
  }
  if (is_complete())
    return status::ok;
  leave(wait_kind::served);
  for (;;) {
    poll();
    if (is_complete())
      break;
    if (shared_.failure() != nullptr)
      return shared_.failed();
    shared_.sleep(rank_, sleep_ns);
  }
  return enter();
}

}  // namespace tanada::comex::swap
