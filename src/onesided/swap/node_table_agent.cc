// The agent's calls of the node table: requests that it accepts and grants, moves, the cache and
// events.
#include <algorithm>

#include "core/base/assert.hpp"
#include "onesided/swap/node_table_layout.hpp"

namespace tanada::onesided::swap {

using enum rank_state;

void node_table::wake_origin(uint32_t origin) noexcept {
  if (origin < rank_count())
    wake(origin);
}

// Origins take turns, so that no request waits indefinitely.
page_request *node_table::next_request() noexcept {
  if (layout_->posted_count.load(std::memory_order_acquire) == 0)
    return nullptr;
  uint32_t const count = origin_count();
  for (uint32_t k = 0; k < count; k++) {
    uint32_t const origin = (layout_->next_origin + k) % count;
    for (auto *request = requests_from(origin);
         request != requests_from(origin) + requests_per_origin;
         request++) {
      if (request->current_stage.load(std::memory_order_acquire) != page_request::stage::posted)
        continue;
      if (request->target >= rank_count()) {
        fail(
            "a page request names a process that does not exist: the node's shared memory is "
            "damaged");
        return nullptr;
      }
      bool const is_resident = pin(request->target);  // or resident again
      if (is_resident && !has_left_out(request->target)) {
        layout_->posted_count.fetch_sub(1);
        request->current_stage.store(page_request::stage::granted, std::memory_order_release);
        wake_origin(origin);
        continue;
      }
      if (!is_resident && !is_swapped_out(state(request->target)))
        continue;  // it is being moved
      // The target is not swapped out, or not again, before complete_request().
      if (!is_resident)
        entry_for(request->target).gate.fetch_add(1);
      layout_->posted_count.fetch_sub(1);
      request->current_stage.store(page_request::stage::accepted, relaxed);
      layout_->next_origin = (origin + 1) % count;
      return request;
    }
  }
  return nullptr;
}

void node_table::grant(page_request &request) noexcept {
  TND_ASSERT(request.current_stage.load(relaxed) == page_request::stage::accepted);
  request.is_agent_granted = 1;
  if (request.copy != page_request::no_copy)
    unpin(request.target);
  uint32_t const origin = request.origin;
  request.current_stage.store(page_request::stage::granted, std::memory_order_release);
  wake_origin(origin);
}

void node_table::recycle(page_request &request) noexcept {
  TND_ASSERT(is_complete(request));
  uint32_t const origin = request.origin;  // the origin may reuse the request at once
  request.current_stage.store(page_request::stage::unused, std::memory_order_release);
  wake_origin(origin);
}

std::optional<move_order> node_table::next_move() {
  guard const locked{*this};
  apply_decisions(caller::agent);
  for (uint32_t i = 0; i < rank_count(); i++) {
    auto &entry = entry_for(i);
    rank_state const current = entry.state.load(relaxed);
    if ((current != swap_out && current != swap_in) || entry.is_move_taken.load(relaxed))
      continue;
    if (current == swap_out && entry.gate.load(std::memory_order_acquire) != rank_entry::closed)
      continue;  // it is pinned
    entry.is_move_taken.store(true, relaxed);
    return move_order{
        current == swap_out ? move_order::direction::swap_out : move_order::direction::swap_in, i};
  }
  return std::nullopt;
}

void node_table::complete_move(const move_order &order, const move_result &result) {
  guard const locked{*this};
  auto &entry = entry_for(order.rank);
  TND_ASSERT(entry.is_move_taken.load(relaxed));
  TND_ASSERT((entry.gate.load(relaxed) & rank_entry::closed) != 0);
  auto &counters = layout_->counters;
  entry.resident_size.store(result.resident_size, relaxed);
  entry.swapped_size.store(result.swapped_size, relaxed);
  if (order.dir == move_order::direction::swap_in) {
    counters.bytes_in.fetch_add(result.moved_size, relaxed);
    counters.bytes_left_out.fetch_add(result.left_out_size, relaxed);
    entry.has_left_out.store(result.left_out_size != 0, relaxed);
    counters.swaps_in.fetch_add(1, relaxed);
    entry.is_swapped_in.store(true, std::memory_order_release);
    wake(order.rank);
    return;  // the rank calls complete_swap_in()
  }
  entry.has_left_out.store(false, relaxed);
  counters.bytes_out.fetch_add(result.moved_size, relaxed);
  counters.swaps_out.fetch_add(1, relaxed);
  set_state(order.rank, swapped);
  if (entry.wants_to_run.load(relaxed))
    set_state(order.rank, swap_in_wait);
  apply_decisions(caller::agent);
}

uint64_t node_table::update_cache_size(uint64_t bytes) noexcept {
  guard const locked{*this};
  layout_->cached_size = bytes;
  apply_decisions(caller::agent);
  uint64_t const cache_size = layout_->options.cache_size;
  if (layout_->cache_surplus > 0)
    return std::max(cache_size, bytes - std::min(bytes, layout_->cache_surplus));
  auto const node = make_view();
  uint64_t used = 0;
  for (auto const &rank : node.ranks)
    used += charge_of(rank, node.budget);
  return cache_size + node.budget - std::min(node.budget, used);
}

void node_table::sleep_agent(uint64_t timeout_ns) noexcept {
  if (!layout_->was_agent_woken.exchange(false))
    layout_->agent_alarm.sleep(
        [&] { return layout_->was_agent_woken.load(); }, timeout_ns, {}, *alarm_);
}

size_t node_table::take_events(std::span<state_event> events) {
  guard const locked{*this};
  auto &taken_count = layout_->events_taken;
  uint64_t const written_count = layout_->events_written;
  TND_ASSERT(taken_count <= written_count);
  if (written_count - taken_count > layout::event_capacity) {
    layout_->counters.events_lost.fetch_add(written_count - layout::event_capacity - taken_count,
                                            relaxed);
    taken_count = written_count - layout::event_capacity;
  }
  size_t count = 0;
  while (taken_count != written_count && count < events.size())
    events[count++] = layout_->events[taken_count++ % layout::event_capacity];
  return count;
}

}  // namespace tanada::onesided::swap
