// Credit for eager messages: see wire::o2g::eager_cost(). Every unexpected message in memory was
// covered by credit, so the memory that a receiver grants is the memory that it can need.

#include <algorithm>

#include "core/base/assert.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::eager_cost;
using wire::o2g::envelope;
using wire::o2g::kind;

static_assert(sizeof(message) <= wire::o2g::message_overhead);

// The sender's side.
bool engine_core::has_credit(const link &peer_link, uint64_t size) noexcept {
  return peer_link.credit_size - peer_link.sent_cost >= eager_cost(size);
}

void engine_core::use_credit(link &peer_link, uint64_t size) noexcept {
  TND_ASSERT(has_credit(peer_link, size));
  peer_link.sent_cost += eager_cost(size);
}

void engine_core::return_credit(link &peer_link, uint64_t size) noexcept {
  TND_ASSERT(peer_link.sent_cost >= eager_cost(size));
  peer_link.sent_cost -= eager_cost(size);
}

// The receiver's side: the bytes that a peer may use ahead of its receives.
uint64_t engine_core::credit_window() const noexcept {
  return options_.unexpected_size_soft / std::max<size_t>(1, links_.size());
}

// The bytes by which the credit of a peer may grow now. The last half of what the hard limit leaves
// is for other peers.
uint64_t engine_core::grantable_size(const link &peer_link) const noexcept {
  uint64_t const held_size =
      peer_link.peer == any_peer ? 0 : peers_[peer_link.peer].unexpected_size;
  uint64_t const used = held_size + (peer_link.granted_size - peer_link.received_cost);
  uint64_t const window = credit_window();
  uint64_t const total = counters_.unexpected_size + unused_credit_;
  if (used >= window || total >= options_.unexpected_size_hard)
    return 0;
  return std::min(window - used, (options_.unexpected_size_hard - total + 1) / 2);
}

void engine_core::add_granted(link &peer_link, uint64_t size) noexcept {
  peer_link.granted_size += size;
  unused_credit_ += size;
}

void engine_core::grant_first_credit(link &peer_link) noexcept {
  TND_ASSERT(peer_link.received_cost == 0);
  if (peer_link.granted_size == 0)
    add_granted(peer_link, grantable_size(peer_link));
  note_low_credit(peer_link);
}

// Notes a link that must be granted more.
void engine_core::note_low_credit(link &peer_link) noexcept {
  bool const is_low = peer_link.granted_size - peer_link.received_cost < credit_window() / 2;
  if (!is_low || peer_link.is_credit_due || peer_link.current_phase == link::phase::closed)
    return;
  peer_link.is_credit_due = true;
  credit_changed_ = true;
  credit_due_links_.push_back(&peer_link);
}

// Records an eager message that has begun. False: the peer had no credit for it.
bool engine_core::record_eager(link &peer_link, uint64_t size) noexcept {
  uint64_t const cost = eager_cost(size);
  if (cost > peer_link.granted_size - peer_link.received_cost)
    return false;
  count_eager(peer_link, cost);
  return true;
}

// The message driver has received messages that were sent later than those that are still to be
// read, so their cost is bounded here, not refused.
void engine_core::count_eager(link &peer_link, uint64_t cost) noexcept {
  uint64_t const used = std::min(cost, peer_link.granted_size - peer_link.received_cost);
  TND_ASSERT(unused_credit_ >= used);
  peer_link.received_cost += used;
  unused_credit_ -= used;
  note_low_credit(peer_link);
}

// Grants credit to the links that are due. Those that cannot have enough of it remain due.
void engine_core::grant_due_credit() noexcept {
  credit_changed_ = false;
  std::erase_if(credit_due_links_, [this](link *peer_link) {
    peer_link->is_credit_due = !grant_credit(*peer_link);
    return !peer_link->is_credit_due;
  });
}

// False: the link must be granted more later.
bool engine_core::grant_credit(link &peer_link) noexcept {
  if (peer_link.current_phase != link::phase::established)
    return false;
  uint64_t const window = credit_window();
  uint64_t const size = grantable_size(peer_link);
  uint64_t const unused = peer_link.granted_size - peer_link.received_cost;
  bool const is_enough = unused + size >= window / 2;
  if (size != 0 && (is_enough || size >= window / 4)) {
    add_granted(peer_link, size);
    send_credit(peer_link);
  }
  return is_enough;
}

void engine_core::send_credit(link &peer_link) noexcept {
  if (peer_link.is_self) {
    peer_link.credit_size = peer_link.granted_size;
    return;
  }
  if (peer_link.credit_update != nullptr && peer_link.credit_update->written_size == 0) {
    peer_link.credit_update->head.data = peer_link.granted_size;
    return;
  }
  envelope head;
  head.kind = uint8_t(kind::credit);
  head.data = peer_link.granted_size;
  operation *const op = make_operation(head, {});
  if (op == nullptr)
    return set_out_of_memory();
  op->is_internal = true;
  peer_link.credit_update = op;
  send_operation(peer_link, op);
}

// The connection is closed: its peer cannot use its credit any more.
void engine_core::revoke_credit(link &peer_link) noexcept {
  uint64_t const unused = peer_link.granted_size - peer_link.received_cost;
  TND_ASSERT(unused_credit_ >= unused);
  unused_credit_ -= unused;
  peer_link.received_cost = peer_link.granted_size;
  if (std::exchange(peer_link.is_credit_due, false))
    std::erase(credit_due_links_, &peer_link);
}

}  // namespace tanada::o2g
