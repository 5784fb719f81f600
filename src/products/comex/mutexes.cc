// mutexes.cc: the queue lock of Mellor-Crummey and Scott (ACM TOCS 9, 1, 1991). A waiter spins on
// its own memory until its predecessor passes the lock on, in FIFO order. A tail encodes a process
// and one of its slots: process * slot_count + slot + 1; 0: the mutex is free.
#include <algorithm>

#include "products/comex/control.hpp"
#include "products/comex/deferred_error.hpp"

namespace tanada::comex {

using seams::fabric_atomic;

status engine::lock(const mutex &id) {
  if (id.index >= mutex_count_max || uint32_t(id.pe) >= peers_.size()) {
    return set_error(status::invalid, "there is no mutex {} of process {}", id.index, id.pe);
  }
  return acquire_mutex(id, std::span{mutex_slots_}.first(control::mutex_node_count - 1));
}

uint32_t engine::mutex_tag(uint32_t slot_index) const noexcept {
  TND_ASSERT(slot_index < control::mutex_node_count);
  return uint32_t(me()) * control::mutex_node_count + slot_index + 1;
}

status engine::acquire_mutex(const mutex &id, std::span<mutex_slot> slots) {
  TND_ASSERT(id.index < control::tail_count && slots.size() <= mutex_slots_.size());
  auto *const tail = &control_->tails[id.index];
  auto const slot = std::find_if(
      slots.begin(), slots.end(), [](const mutex_slot &slot_entry) { return !slot_entry.is_used; });
  if (slot == slots.end())
    return set_error(
        status::busy, "this process holds {} mutexes already, the maximum", slots.size());
  auto const index = uint32_t(&*slot - mutex_slots_.data());
  uint32_t const own_tag = mutex_tag(index);
  auto &node = control_->mutex_nodes[index];
  __atomic_store_n(&node.next, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&node.is_granted, 0, __ATOMIC_RELEASE);
  uint32_t before = 0;
  TND_TRY(context_->update(fabric_atomic::swap, tail, own_tag, uint32_t{0}, &before, id.pe));
  if (before != 0)
    TND_TRY(await_mutex(before, index));
  *slot = {id, true};
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

// Queues up after the predecessor and waits until it passes the mutex on.
status engine::await_mutex(uint32_t predecessor_tag, uint32_t slot_index) {
  uint32_t const own_tag = mutex_tag(slot_index), predecessor = predecessor_tag - 1;
  TND_ASSERT(predecessor_tag != 0);
  auto const &node = control_->mutex_nodes[slot_index];
  auto const pe = pe_index(predecessor / control::mutex_node_count);
  auto *const next = &control_->mutex_nodes[predecessor % control::mutex_node_count].next;
  TND_TRY(context_->update<uint32_t>(fabric_atomic::bit_or, next, own_tag, 0, nullptr, pe));
  auto const is_granted = [&] {
    return __atomic_load_n(&node.is_granted, __ATOMIC_ACQUIRE) != 0;
  };
  return wait(is_granted, std::as_bytes(std::span{&node.is_granted, 1}));
}

bool engine::holds_mutexes() const noexcept {
  return std::any_of(mutex_slots_.begin(), mutex_slots_.end(), [](const mutex_slot &slot_entry) {
    return slot_entry.is_used;
  });
}

status engine::unlock(const mutex &id) {
  auto const slot =
      std::find_if(mutex_slots_.begin(), mutex_slots_.end(), [&](const mutex_slot &slot_entry) {
        return slot_entry.is_used && slot_entry.id == id;
      });
  if (slot == mutex_slots_.end())
    return set_error(
        status::bad_state, "this process does not hold mutex {} of process {}", id.index, id.pe);
  TND_TRY(finish());  // the next holder sees what was done under the mutex
  slot->is_used = false;
  auto successor_tag = leave_mutex_queue(id, uint32_t(slot - mutex_slots_.begin()));
  if (!successor_tag.ok())
    return successor_tag.error();
  if (successor_tag.value() == 0)
    return status::ok;
  uint32_t const successor = successor_tag.value() - 1;
  auto *const successor_granted =
      &control_->mutex_nodes[successor % control::mutex_node_count].is_granted;
  return context_->update<uint32_t>(fabric_atomic::bit_or,
                                    successor_granted,
                                    1,
                                    0,
                                    nullptr,
                                    pe_index(successor / control::mutex_node_count));
}

// Returns the tag of the successor; 0: there is no successor, and the mutex is free.
result<uint32_t> engine::leave_mutex_queue(const mutex &id, uint32_t slot_index) {
  auto *const tail = &control_->tails[id.index];
  uint32_t const own_tag = mutex_tag(slot_index);
  auto *const node = &control_->mutex_nodes[slot_index];
  auto const next = [&] {
    return __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
  };
  if (next() != 0)
    return next();
  uint32_t before = 0;
  TND_TRY(
      context_->update(fabric_atomic::compare_swap, tail, uint32_t{0}, own_tag, &before, id.pe));
  if (before == own_tag)
    return uint32_t{0};
  TND_TRY(wait([&] { return next() != 0; }, std::as_bytes(std::span{&node->next, 1})));
  return next();
}

}  // namespace tanada::comex
