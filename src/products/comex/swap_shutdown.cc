// swap_shutdown.cc: ends the processes of a node one by one while their memory is swapped.
#include "products/comex/swap_shutdown.hpp"

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"

namespace tanada::comex {

using enum onesided::swap::rank_state;

void swap_shutdown::watch() {
  if (is_watching_.exchange(true))
    return;
  std::vector<seams::watched_process> watched;
  for (uint32_t rank = 0; rank < table_.rank_count(); rank++) {
    if (rank != me_ && (me_ == 0 || rank == 0))
      watched.push_back({int32_t(rank), table_.process_id_of(rank)});
  }
  watch_.start(std::move(watched),
               {.has_departed = [](int32_t) { return false; },
                .on_failure =
                    [this](int32_t rank) {
                      on_process_end(uint32_t(rank));
                    }});
}

void swap_shutdown::on_process_end(uint32_t rank) {
  TND_ASSERT(rank < phases_.size() && rank != me_);
  if (me_ != 0) {
    if (phases_[me_]->load() != shutdown_phase::exiting)
      table_.fail("the process with the node's swap agent ended before the others");
    return;
  }
  {
    lock_guard const lock{mutex_};
    auto const state = table_.state(rank);
    if (state == running)
      table_.finish(rank);
    else if (state != inactive)
      return table_.fail("a process ended while it waited for others");
  }
  drop_(rank);
}

void swap_shutdown::poll() {
  if (!is_watching_.load(std::memory_order_relaxed))
    return;
  TND_ASSERT(me_ == 0);
  bool is_awaited = false;
  for (uint32_t rank = 0; rank < phases_.size(); rank++) {
    auto const view = table_.snapshot(rank);
    is_awaited =
        is_awaited || view.wants_to_run || view.state == swap_in_wait || view.state == ready;
  }
  if (!is_awaited)
    return;
  uint64_t const now_ns = table_.time().now_ns();
  for (uint32_t rank = 0; rank < phases_.size(); rank++) {
    lock_guard const lock{mutex_};
    auto const view = table_.snapshot(rank);
    if (phases_[rank]->load() != shutdown_phase::exiting || view.state != running ||
        now_ns - std::min(now_ns, view.since_ns) < grace_ns)
      continue;
    table_.finish(rank);
    if (std::exchange(has_warned_, true))
      continue;
    log(log_level::warning,
        "swapping: process {} has not ended {} s after MPI_Finalize: admitting others beyond "
        "TND_COMEX_MEMORY",
        table_.job_rank_of(rank),
        grace_ns / 1'000'000'000);
  }
}

bool swap_shutdown::begin_linger() {
  lock_guard const lock{mutex_};
  if (phases_[me_]->load() != shutdown_phase::exiting || table_.state(me_) != running)
    return false;
  phases_[me_]->store(shutdown_phase::lingering);
  return true;
}

bool swap_shutdown::is_finished(uint32_t rank) const {
  TND_ASSERT(rank < phases_.size());
  auto const state = table_.state(rank);
  return state == inactive ||
         (state == running && phases_[rank]->load() == shutdown_phase::exiting);
}

void swap_shutdown::wait_for_others(const std::function<void()> &progress) {
  TND_ASSERT(me_ == 0);
  constexpr uint64_t poll_interval_ns = 1'000'000;
  // The launcher ends processes that exit without MPI_Finalize.
  uint64_t const stall_limit_ns =
      phases_[me_]->load() == shutdown_phase::finalized ? grace_ns / 2 : 6 * grace_ns;
  auto &time = table_.time();
  uint64_t since_ns = time.now_ns();
  std::vector<onesided::swap::rank_state> previous_states;
  while (table_.failure() == nullptr) {
    bool are_all_finished = true, is_moving = false;
    std::vector<onesided::swap::rank_state> states;
    for (uint32_t rank = 0; rank < phases_.size(); rank++) {
      states.push_back(table_.state(rank));
      is_moving = is_moving || states.back() == swap_out || states.back() == swap_in;
      are_all_finished = are_all_finished && (rank == me_ || is_finished(rank));
    }
    if (are_all_finished)
      return;
    uint64_t const now_ns = time.now_ns();
    if (is_moving || states != previous_states)
      since_ns = now_ns;
    previous_states = std::move(states);
    if (now_ns - since_ns > stall_limit_ns)
      return;
    progress();
    table_.sleep(me_, poll_interval_ns);
  }
}

}  // namespace tanada::comex
