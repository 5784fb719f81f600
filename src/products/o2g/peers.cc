// Peers: those that the program has named, and strangers; and what all of them are told of the room
// there is.

#include <algorithm>
#include <bit>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

result<peer_index> engine_core::peer_of(const port::socket_address &address) {
  lock_guard const lock{mutex_};
  auto const known = by_address_.find(address);
  bool const is_one_more = known == by_address_.end() || !peers_[known->second].is_named;
  if (is_one_more && peers_.size() - strangers_.size() >= options_.peer_count_max)
    return fail(status::no_space, "o2g: more than %u peers", options_.peer_count_max);
  auto const found =
      known == by_address_.end() ? add_peer(address) : result<peer_index>{known->second};
  if (!found.ok())
    return found;
  peer &named = peers_[result<peer_index>{found}.value()];
  named.lost = false;  // whoever names it anew tries anew
  if (!std::exchange(named.is_named, true))
    std::erase(strangers_, result<peer_index>{found}.value());
  return found;
}

result<peer_index> engine_core::add_peer(const port::socket_address &address) try {
  auto const index = peer_index(peers_.size());
  by_address_.emplace(address, index);
  peers_.emplace_back().address = address;
  return index;
} catch (const std::bad_alloc &) {
  by_address_.erase(address);
  return status::no_memory;
}

// Of somebody who greets. Past the limit it takes the place of a stranger who is gone and has left
// nothing behind; no_space: there is none.
result<peer_index> engine_core::stranger_at(const port::socket_address &address) {
  if (auto const found = by_address_.find(address); found != by_address_.end())
    return found->second;
  if (strangers_.size() < options_.stranger_count_max) {
    strangers_.reserve(strangers_.size() + 1 > strangers_.capacity() ? 2 * strangers_.size() + 16
                                                                     : 0);
    auto const added = add_peer(address);
    if (added.ok())
      strangers_.push_back(result<peer_index>{added}.value());
    return added;
  }
  for (size_t looked = 0; looked < strangers_.size(); looked++) {
    stranger_at_ = (stranger_at_ + 1) % strangers_.size();
    peer_index const index = strangers_[stranger_at_];
    peer &gone = peers_[index];
    if (gone.current != nullptr || gone.kept_count != 0)
      continue;
    by_address_.emplace(address, index);
    by_address_.erase(gone.address);
    gone = {.address = address};
    return index;
  }
  return status::no_space;
}

port::socket_address engine_core::peer_address(peer_index index) const {
  lock_guard const lock{mutex_};
  return index < peers_.size() ? peers_[index].address : port::socket_address{};
}

void engine_core::set_peer_word(peer_index index, uint64_t word) {
  lock_guard const lock{mutex_};
  if (index < peers_.size())
    peers_[index].word = word;
}

// Sinks ask for it, with the lock held: a peer is never moved, and a word is written before it is
// of use.
uint64_t engine_core::peer_word(peer_index index) const {
  return index < peers_.size() ? peers_[index].word : ~uint64_t{0};
}

result<link *> engine_core::link_to(peer_index index) {
  if (index >= peers_.size())
    return status::invalid;
  peer &to = peers_[index];
  if (to.current != nullptr)
    return to.current;
  if (to.lost)
    return status::peer_lost;
  TND_TRY(open(index));
  return to.current;
}

// The largest message, in bytes, that each peer may send unannounced: all of them at once should
// stay below the soft limit.
uint64_t engine_core::room() const noexcept {
  if (counts_.dump_size >= options_.dump_size_soft)
    return 0;
  return std::bit_floor((options_.dump_size_soft - counts_.dump_size) /
                        std::max<size_t>(1, links_.size()));
}

// Less room is told at once, more of it when it is much more.
void engine_core::tell_room() noexcept {
  is_dump_moved_ = false;
  uint64_t const now = room();
  if (now == room_last_)
    return;
  room_last_ = now;
  for (size_t i = 0; i < links_.size(); i++) {
    link &each = *links_[i];
    if (each.is_self) {
      each.room_there = now;
      each.room_most = std::max(each.room_most, now);
    }
    bool const is_news = now < each.room_told || now / 4 >= std::max<uint64_t>(each.room_told, 1);
    if (each.now != link::phase::up || each.is_self || !is_news)
      continue;
    each.room_told = now;
    each.room_most = std::max(each.room_most, now);
    if (each.room_news != nullptr &&
        each.room_news->handed == 0) {  // a peer that does not read is told only the last of it
      each.room_news->head.data = now;
      continue;
    }
    envelope head;
    head.what = uint8_t(kind::room);
    head.data = now;
    each.room_news = make_operation(head, {});
    if (each.room_news == nullptr)
      return out_of_memory();
    each.room_news->silent = true;
    say(each, each.room_news);
  }
}

}  // namespace tanada::o2g
