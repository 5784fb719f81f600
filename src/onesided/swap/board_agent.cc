// The agent's calls: requests that it takes and grants, moves that it makes, the cache and events.
#include <algorithm>

#include "core/base/assert.hpp"
#include "onesided/swap/board_memory.hpp"

namespace tanada::comex::swap {

using enum rank_state;

void board::ring_origin(uint32_t origin) noexcept {
  if (origin < rank_count())
    ring(origin);
}

// In turn, so that nobody waits for ever.
request *board::next_request() noexcept {
  if (memory_->posted.load(std::memory_order_acquire) == 0)
    return nullptr;
  uint32_t const count = origin_count();
  for (uint32_t k = 0; k < count; k++) {
    uint32_t const origin = (memory_->next_to_serve + k) % count;
    for (auto *each = requests_of(origin); each != requests_of(origin) + requests_of_rank; each++) {
      if (each->at.load(std::memory_order_acquire) != request::step::posted)
        continue;
      if (each->target >= rank_count()) {
        fail(
            "a request for the memory of a process that there is not: what the node's processes "
            "share is damaged");
        return nullptr;
      }
      if (pin(each->target)) {  // it is not away, or no longer
        memory_->posted.fetch_sub(1);
        each->at.store(request::step::granted, std::memory_order_release);
        ring_origin(origin);
        continue;
      }
      if (!is_away(state(each->target)))
        continue;  // on its way
      of(each->target)
          .gate.fetch_add(1);  // whatever comes of it, it does not leave again before done()
      memory_->posted.fetch_sub(1);
      each->at.store(request::step::taken, relaxed);
      memory_->next_to_serve = (origin + 1) % count;
      return each;
    }
  }
  return nullptr;
}

void board::grant(request &which) noexcept {
  TND_ASSERT(which.at.load(relaxed) == request::step::taken);
  which.is_served = 1;
  if (which.copy != request::no_copy)
    unpin(which.target);
  uint32_t const origin = which.origin;
  which.at.store(request::step::granted, std::memory_order_release);
  ring_origin(origin);
}

void board::recycle(request &which) noexcept {
  TND_ASSERT(is_done(which));
  uint32_t const origin = which.origin;  // it may ask for something else at once
  which.at.store(request::step::none, std::memory_order_release);
  ring_origin(origin);
}

std::optional<order> board::next_order() {
  hold const held{*this};
  apply(caller::agent);
  for (uint32_t i = 0; i < rank_count(); i++) {
    auto &there = of(i);
    rank_state const now = there.state.load(relaxed);
    if ((now != swap_out && now != swap_in) || there.is_taken.load(relaxed))
      continue;
    if (now == swap_out && there.gate.load(std::memory_order_acquire) != place::closed)
      continue;  // pins
    there.is_taken.store(true, relaxed);
    return order{now == swap_out ? order::way::out : order::way::in, i};
  }
  return std::nullopt;
}

void board::moved(const order &which, const move_result &how) {
  hold const held{*this};
  auto &there = of(which.rank);
  auto &all = memory_->counters;
  there.here.store(how.here, relaxed);
  there.away.store(how.away, relaxed);
  if (which.to == order::way::in) {
    all.bytes_in.fetch_add(how.moved, relaxed);
    all.swaps_in.fetch_add(1, relaxed);
    there.has_landed.store(true, std::memory_order_release);
    ring(which.rank);
    return;  // it says when it has arrived
  }
  all.bytes_out.fetch_add(how.moved, relaxed);
  all.swaps_out.fetch_add(1, relaxed);
  change(which.rank, swapped);
  if (there.wants.load(relaxed))
    change(which.rank, swap_in_wait);
  apply(caller::agent);
}

uint64_t board::cached(uint64_t bytes) noexcept {
  hold const held{*this};
  memory_->cached = bytes;
  apply(caller::agent);
  uint64_t const always = memory_->options.cache_size;
  if (memory_->cache_surplus > 0)
    return std::max(always, bytes - std::min(bytes, memory_->cache_surplus));
  auto const now = view();
  uint64_t used = 0;
  for (auto const &each : now.ranks)
    used += charge_of(each, now.budget);
  return always + now.budget - std::min(now.budget, used);
}

void board::agent_sleep(uint64_t timeout_ns) noexcept {
  if (!memory_->has_news.exchange(false))
    memory_->agent.sleep([&] { return memory_->has_news.load(); }, timeout_ns, {}, *alarm_);
}

size_t board::take_events(std::span<state_event> into) {
  hold const held{*this};
  auto &taken = memory_->events_taken;
  uint64_t const written = memory_->events_written;
  if (written - taken > memory::event_capacity) {
    memory_->counters.events_lost.fetch_add(written - memory::event_capacity - taken, relaxed);
    taken = written - memory::event_capacity;
  }
  size_t count = 0;
  while (taken != written && count < into.size())
    into[count++] = memory_->events[taken++ % memory::event_capacity];
  return count;
}

}  // namespace tanada::comex::swap
