#include "products/comex/swap_end.hpp"

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"

namespace tanada::comex {

using enum swap::rank_state;

void swap_end::watch() {
  if (is_watching_.exchange(true))
    return;
  std::vector<port::watched_process> watched;
  for (uint32_t rank = 0; rank < shared_.rank_count(); rank++) {
    if (rank != me_ && (me_ == 0 || rank == 0))
      watched.push_back({int32_t(rank), shared_.process_of(rank)});
  }
  watch_.start(std::move(watched), {.has_left = [](int32_t) { return false; },
                                    .lose =
                                        [this](int32_t rank) {
                                          has_ended(uint32_t(rank));
                                        }});
}

void swap_end::has_ended(uint32_t rank) {
  if (me_ != 0) {
    if (words_[me_]->load() != end_phase::ended)
      shared_.fail("the process that moves the memory of its node has ended before the others");
    return;
  }
  {
    std::lock_guard const lock{mutex_};
    auto const now = shared_.state(rank);
    if (now == running)
      shared_.finish(rank);
    else if (now != gone)
      return shared_.fail("a process has ended while it waited for others");
  }
  drop_(rank);
}

void swap_end::look() {
  if (!is_watching_.load(std::memory_order_relaxed))
    return;
  bool is_wanted = false;
  for (uint32_t rank = 0; rank < words_.size(); rank++) {
    auto const now = shared_.look(rank);
    is_wanted = is_wanted || now.wants || now.state == swap_in_wait || now.state == ready;
  }
  if (!is_wanted)
    return;
  uint64_t const now_ns = shared_.time().now_ns();
  for (uint32_t rank = 0; rank < words_.size(); rank++) {
    std::lock_guard const lock{mutex_};
    auto const now = shared_.look(rank);
    if (words_[rank]->load() != end_phase::ended || now.state != running ||
        now_ns - std::min(now_ns, now.since_ns) < grace_ns)
      continue;
    shared_.finish(rank);
    if (std::exchange(has_warned_, true))
      continue;
    log(log_level::warning,
        "swapping: process %d has not ended %d s after MPI_Finalize: others are let in beyond "
        "TND_COMEX_MEMORY",
        shared_.number_of(rank), int(grace_ns / 1'000'000'000));
  }
}

bool swap_end::linger() {
  std::lock_guard const lock{mutex_};
  if (words_[me_]->load() != end_phase::ended || shared_.state(me_) != running)
    return false;
  words_[me_]->store(end_phase::lingering);
  return true;
}

bool swap_end::is_through(uint32_t rank) const {
  auto const now = shared_.state(rank);
  return now == gone || (now == running && words_[rank]->load() == end_phase::ended);
}

void swap_end::wait_for_others(const std::function<void()> &attend) {
  constexpr uint64_t look_ns = 1'000'000;
  // Those that end without MPI_Finalize are ended by the launcher.
  uint64_t const quiet_ns = words_[me_]->load() == end_phase::over ? grace_ns / 2 : 6 * grace_ns;
  auto &time = shared_.time();
  uint64_t since_ns = time.now_ns();
  std::vector<swap::rank_state> before;
  while (shared_.failure() == nullptr) {
    bool is_over = true, is_moving = false;
    std::vector<swap::rank_state> states;
    for (uint32_t rank = 0; rank < words_.size(); rank++) {
      states.push_back(shared_.state(rank));
      is_moving = is_moving || states.back() == swap_out || states.back() == swap_in;
      is_over = is_over && (rank == me_ || is_through(rank));
    }
    if (is_over)
      return;
    uint64_t const now_ns = time.now_ns();
    if (is_moving || states != before)
      since_ns = now_ns;
    before = std::move(states);
    if (now_ns - since_ns > quiet_ns)
      return;
    attend();
    shared_.sleep(me_, look_ns);
  }
}

}  // namespace tanada::comex
