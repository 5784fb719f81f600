// The queue lock of Mellor-Crummey and Scott (ACM TOCS 9, 1, 1991): who comes later waits in its
// own memory until the one before hands over; first come, first served. A tail names a process and
// one of its places: process * place_count + place + 1; 0: nobody.
#include <algorithm>

#include "products/comex/control.hpp"
#include "products/comex/refusal.hpp"

namespace tanada::comex {

using port::fabric_atomic;

status engine::lock(const mutex &which) {
  if (which.index >= mutex_count_max || uint32_t(which.pe) >= peers_.size()) {
    return refuse(status::invalid, "there is no mutex %u of process %d", which.index, which.pe);
  }
  return take(which, std::span{held_}.first(control::place_count - 1));
}

status engine::take(const mutex &which, std::span<held_mutex> among) {
  auto *const tail = &control_->tails[which.index];
  auto const found = std::find_if(among.begin(), among.end(),
                                  [](const held_mutex &each) { return !each.is_used; });
  if (found == among.end())
    return refuse(status::busy, "%zu mutexes are held already", among.size());
  auto const index = uint32_t(&*found - held_.data());
  auto &place = control_->places[index];
  uint32_t const mine = uint32_t(me()) * control::place_count + index + 1;
  __atomic_store_n(&place.next, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&place.is_ours, 0, __ATOMIC_RELEASE);
  uint32_t before = 0;
  TND_TRY(context_->update(fabric_atomic::swap, tail, mine, uint32_t{0}, &before, which.pe));
  if (before != 0) {
    auto const pe = pe_index((before - 1) / control::place_count);
    auto *const next = &control_->places[(before - 1) % control::place_count].next;
    TND_TRY(context_->update<uint32_t>(fabric_atomic::bit_or, next, mine, 0, nullptr, pe));
    auto const is_ours = [&] {
      return __atomic_load_n(&place.is_ours, __ATOMIC_ACQUIRE) != 0;
    };
    TND_TRY(wait(is_ours, std::as_bytes(std::span{&place.is_ours, 1})));
  }
  *found = {which, true};
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

bool engine::holds_mutexes() const noexcept {
  return std::any_of(held_.begin(), held_.end(),
                     [](const held_mutex &each) { return each.is_used; });
}

status engine::unlock(const mutex &which) {
  auto const found = std::find_if(held_.begin(), held_.end(), [&](const held_mutex &each) {
    return each.is_used && each.which == which;
  });
  if (found == held_.end())
    return refuse(status::bad_state, "mutex %u of process %d is not held here", which.index,
                  which.pe);
  TND_TRY(finish());  // what was done under it is seen by who holds it next
  auto *const tail = &control_->tails[which.index];
  auto const index = uint32_t(found - held_.begin());
  uint32_t const mine = uint32_t(me()) * control::place_count + index + 1;
  auto *const place = &control_->places[index];
  auto const next = [&] {
    return __atomic_load_n(&place->next, __ATOMIC_ACQUIRE);
  };
  found->is_used = false;
  if (next() == 0) {
    uint32_t before = 0;
    TND_TRY(
        context_->update(fabric_atomic::compare_swap, tail, uint32_t{0}, mine, &before, which.pe));
    if (before == mine)
      return status::ok;
    TND_TRY(wait([&] { return next() != 0; }, std::as_bytes(std::span{&place->next, 1})));
  }
  uint32_t const after = next() - 1;
  auto *const is_theirs = &control_->places[after % control::place_count].is_ours;
  return context_->update<uint32_t>(fabric_atomic::bit_or, is_theirs, 1, 0, nullptr,
                                    pe_index(after / control::place_count));
}

}  // namespace tanada::comex
