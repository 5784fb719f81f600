// Registered and unregistered peers, and the eager limits sent to them.

#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

result<peer_index> engine_core::register_peer(const seams::socket_address &address) {
  lock_guard const lock{mutex_};
  TND_ASSERT(unregistered_peers_.size() <= peers_.size());
  auto const known = by_address_.find(address);
  bool const adds_registration = known == by_address_.end() || !peers_[known->second].is_registered;
  if (adds_registration && peers_.size() - unregistered_peers_.size() >= options_.peer_count_max)
    return fail(
        status::no_space, "o2g: more than {} peers of one endpoint", options_.peer_count_max);
  auto const index_result =
      known == by_address_.end() ? add_peer(address) : result<peer_index>{known->second};
  if (!index_result.ok())
    return index_result;
  peer &named = peers_[result<peer_index>{index_result}.value()];
  named.has_failed = false;  // registering it again permits another attempt
  if (!std::exchange(named.is_registered, true))
    std::erase(unregistered_peers_, result<peer_index>{index_result}.value());
  return index_result;
}

result<peer_index> engine_core::add_peer(const seams::socket_address &address) try {
  TND_ASSERT(by_address_.size() == peers_.size());
  auto const index = peer_index(peers_.size());
  by_address_.emplace(address, index);
  peers_.emplace_back().address = address;
  return index;
} catch (const std::bad_alloc &) {
  by_address_.erase(address);
  return status::no_memory;
}

// Finds or adds the sender of a hello message. Beyond the limit it replaces an unregistered peer
// that has neither a connection nor an unexpected message. no_space: there is no such peer.
result<peer_index> engine_core::find_or_add_unregistered(const seams::socket_address &address) {
  if (auto const it = by_address_.find(address); it != by_address_.end())
    return it->second;
  if (unregistered_peers_.size() < options_.unregistered_count_max) {
    unregistered_peers_.reserve(unregistered_peers_.size() + 1 > unregistered_peers_.capacity()
                                    ? 2 * unregistered_peers_.size() + 16
                                    : 0);
    auto const added = add_peer(address);
    if (added.ok())
      unregistered_peers_.push_back(result<peer_index>{added}.value());
    return added;
  }
  for (size_t attempt = 0; attempt < unregistered_peers_.size(); attempt++) {
    last_replaced_ = (last_replaced_ + 1) % unregistered_peers_.size();
    peer_index const index = unregistered_peers_[last_replaced_];
    peer &replaced = peers_[index];
    TND_ASSERT(!replaced.is_registered);
    if (replaced.current != nullptr || replaced.unexpected_count != 0)
      continue;
    by_address_.emplace(address, index);
    by_address_.erase(replaced.address);
    replaced = {.address = address};
    return index;
  }
  return status::no_space;
}

seams::socket_address engine_core::peer_address(peer_index index) const {
  lock_guard const lock{mutex_};
  return index < peers_.size() ? peers_[index].address : seams::socket_address{};
}

void engine_core::set_peer_user_data(peer_index index, uint64_t user_data) {
  lock_guard const lock{mutex_};
  if (index < peers_.size())
    peers_[index].user_data = user_data;
}

// Not locked, because sinks call it with the lock held: a peer never moves, and its data are
// written before they are used.
uint64_t engine_core::peer_user_data(peer_index index) const {
  return index < peers_.size() ? peers_[index].user_data : ~uint64_t{0};
}

result<link *> engine_core::link_for_peer(peer_index index) {
  if (index >= peers_.size())
    return status::invalid;
  peer &peer_entry = peers_[index];
  if (peer_entry.current != nullptr)
    return peer_entry.current;
  if (peer_entry.has_failed)
    return status::peer_lost;
  TND_TRY(open_connection(index));
  return peer_entry.current;
}

}  // namespace tanada::o2g
