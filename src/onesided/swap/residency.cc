// A process's waits, reservations and accesses, by calls of the node table.
#include "onesided/swap/residency.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/thread.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr uint64_t ready_poll_ns = 30'000;

}  // namespace

residency::residency(node_table &table,
                     uint32_t rank,
                     std::span<page_bits> stored,
                     memory_hooks memory,
                     std::span<page_bits> left_out)
    : table_{table},
      rank_{rank},
      stored_{stored},
      left_out_{left_out},
      memory_{std::move(memory)},
      page_requests_{table, rank, stored, left_out} {
  TND_ASSERT(rank < stored.size());
  TND_ASSERT(memory_.collect != nullptr && memory_.arm != nullptr);
  TND_ASSERT(memory_.resident_size != nullptr);
}

status residency::start(int32_t process_id) {
  depth_ = 1;
  table_.start(rank_, process_id);
  TND_TRY(end_wait());
  memory_.arm();
  return status::ok;
}

void residency::finish() {
  disable_nonresident();
  table_.finish(rank_);
  depth_ = 1;  // permanently: later waits are no-ops
}

void residency::begin_wait(wait_kind kind) {
  if (depth_ == 0 && is_nonresident()) {
    // If it cannot be made resident, the node table has failed. end_wait() reports that.
    bool const may_stay_nonresident = kind == wait_kind::swappable || restore() != status::ok;
    if (may_stay_nonresident && end_nonresident())
      return;
  }
  if (depth_++ > 0)
    return;
  uint64_t const resident_size = memory_.resident_size();
  if (kind == wait_kind::swappable)
    learn(resident_size);
  table_.set_resident_size(rank_, resident_size);
  TND_ASSERT(!is_nonresident());
  table_.begin_wait(rank_, kind);
}

void residency::prepare_swap_out() {
  if (!table_.should_prepare(rank_))
    return;
  memory_.collect();
  find_cold();
  table_.set_resident_size(rank_, memory_.resident_size());
  table_.set_prepared(rank_);
}

status residency::end_wait() {
  TND_ASSERT(depth_ > 0);
  if (depth_ > 1) {
    depth_--;
    return status::ok;
  }
  if (memory_.pager != nullptr && begin_nonresident()) {
    depth_ = 0;
    return status::ok;
  }
  for (;;) {
    if (table_.failure() != nullptr)
      return table_.report_failure();
    if (table_.try_resume(rank_))
      break;
    prepare_swap_out();
    if (table_.is_swapped_in(rank_)) {
      if (memory_.pager != nullptr)
        memory_.pager->arm();
      else
        memory_.arm();
      table_.complete_swap_in(rank_);
      continue;
    }
    // Long, because many ranks wait at a time, and every event of this rank wakes it.
    table_.sleep(rank_, queue_sleep_ns);
  }
  if (memory_.pager != nullptr)
    memory_.pager->grant_all();
  running_since_ns_ = table_.time().now_ns();
  depth_ = 0;
  return status::ok;
}

status residency::yield() {
  if (depth_ > 0)
    return status::ok;
  begin_wait(wait_kind::swappable);
  auto &time = table_.time();
  // Wait long enough to be chosen. After that, only the order of ranks could change.
  uint64_t const deadline_ns = time.now_ns() + 4 * table_.options().swap_out_delay_ns;
  for (;;) {
    rank_state const state = table_.state(rank_);
    bool const is_chosen = state == rank_state::swap_out_wait || state == rank_state::swap_out;
    if (table_.failure() != nullptr || is_swapped_out(state) ||
        (!is_chosen && time.now_ns() >= deadline_ns))
      break;
    // A rank that was chosen, but is not needed any more, stays.
    if (state == rank_state::swap_out_wait && time.now_ns() >= deadline_ns + 100 * sleep_ns)
      break;
    prepare_swap_out();
    table_.sleep(rank_, sleep_ns);
  }
  return end_wait();
}

status residency::reserve(uint64_t bytes, wait_kind kind) {
  TND_TRY(make_resident());
  switch (table_.try_reserve(rank_, bytes)) {
    case node_table::reservation::granted:
      return status::ok;
    case node_table::reservation::too_large:
      return fail(status::no_memory,
                  "{} bytes for process {}, which has {}, are more than the {} of "
                  "TND_COMEX_MEMORY, of which {} are reserved for memory that cannot be swapped "
                  "out: set TND_COMEX_MEMORY to more than the sum",
                  bytes,
                  table_.job_rank_of(rank_),
                  table_.snapshot(rank_).allocated,
                  table_.options().budget,
                  table_.reserved());
    case node_table::reservation::wait:
      break;
  }
  begin_wait(kind);
  TND_TRY(end_wait());
  return make_resident();  // whoever made this process resident granted the pending reservation
}

bool residency::begin(page_access access) {
  if (access.target != rank_) {
    // If it cannot be made resident, the node table has failed. complete() reports that.
    return page_requests_.begin(std::move(access), make_resident() == status::ok);
  }
  for (size_t i = 0; i < access.extents.size(); i++) {
    access.on_piece(i, 0, access.extents[i].size, nullptr);
  }
  return true;
}

status residency::complete() {
  auto &time = table_.time();
  uint64_t const deadline_ns = time.now_ns() + ready_poll_ns;
  while (!is_complete() && time.now_ns() < deadline_ns) {
    poll();
    seams::spin_pause();
  }
  if (is_complete())
    return status::ok;
  begin_wait(wait_kind::for_pages);
  for (;;) {
    poll();
    if (is_complete())
      break;
    if (table_.failure() != nullptr)
      return table_.report_failure();
    table_.sleep(rank_, sleep_ns);
  }
  return end_wait();
}

}  // namespace tanada::onesided::swap
