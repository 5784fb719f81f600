// What comes: messages, and answers to ours.

#include <tanada/status.h>

#include <array>
#include <cstdio>
#include <new>

#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

void engine_core::arrived(link &from) {
  switch (kind(from.head.what)) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse:
      from.small.resize(from.head.size);
      from.place = scatter{from.small.data(), from.small.size()};
      from.to = link::target::small;
      return;
    case kind::message: return arrive_message(from, false);
    case kind::announce: return arrive_message(from, true);
    case kind::pull: return answer_pull(from);
    case kind::body: return pulled(from);
    case kind::put: return begin_put(from);
    case kind::get: return begin_get(from);
    case kind::got:
    case kind::fetched: return begin_answer(from);
    case kind::atomic: return begin_atomic(from);
    case kind::ack: return acknowledged(from);
    case kind::room: from.room_there = from.head.data; return;
    case kind::bye: from.said_bye = true; return;
    case kind::ending: return peer_ends(from);
  }
}

// The last byte of what follows an envelope has come, or nothing follows.
void engine_core::end_body(link &from) {
  if (from.now == link::phase::crossed)
    return;
  switch (kind(from.head.what)) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse: return greeted(from, kind(from.head.what));
    case kind::message:
    case kind::body:
      if (from.to == link::target::dump)
        return dump_ended(from);
      if (from.to != link::target::receive)
        return;
      from.to = link::target::nothing;
      return finish_receive(from.receive, from.about, from.receive_to, status::ok);
    case kind::put: return end_put(from);
    case kind::got:
    case kind::fetched: return end_answer(from);
    case kind::atomic: return end_atomic(from);
    default: return;
  }
}

// What the peer's own log says stands in another process: here is why this side's requests fail.
void engine_core::peer_ends(const link &from) noexcept {
  envelope const &head = from.head;
  auto const number = [](uint64_t value) {
    return static_cast<unsigned long long>(value);
  };
  status const code = wire::status_of(int32_t(head.data));
  complain([&] {
    std::string const address = to_text(peers_[from.peer].address);
    if (code == status::no_space)
      log(log_level::error,
          "o2g: the endpoint %s ends: it keeps %llu messages, %llu bytes, that it has posted no "
          "receive for, and its limit is %llu bytes "
          "(TND_O2G_DUMP_HARD there). Requests of %s to it fail. Post receives earlier, send fewer "
          "messages ahead of them, or raise "
          "TND_O2G_DUMP_HARD",
          address.c_str(), number(head.id), number(head.address), number(head.tag), name_.c_str());
    else
      log(log_level::error, "o2g: the endpoint %s ends: %s. Requests of %s to it fail",
          address.c_str(), tnd_status_text(tnd_status(code)), name_.c_str());
  });
}

void engine_core::arrive_message(link &from, bool is_announced) {
  envelope const &head = from.head;
  if (!is_announced && head.size > std::max<uint64_t>(from.room_most, inject_size_max))
    return broken(from, "a message larger than it was told that there is room for");
  if (is_announced && head.size <= unannounced_size)
    return broken(from, "an announcement of what need not be announced");
  from.about = {head.tag, head.data, head.size, head.id, 0, head.flags, from.peer, from.serial};
  bool const is_tagged = (head.flags & wire::o2g::tagged) != 0;
  if (!is_tagged)
    from.about.tag = 0;
  counts_.received_count++;
  for (;;) {
    posted_entry *const found = queue_of(is_tagged).find_posted({from.about.tag, from.peer});
    if (found == nullptr)
      break;
    auto *const into = static_cast<receive *>(found);
    if (!make_place(*into, from.about, from.receive_to))
      continue;  // it was full
    if (is_announced)
      return pull({into, from.receive_to, &from, from.about});
    from.receive = into;
    from.to = link::target::receive;
    from.place = place_of(*into, from.about, from.receive_to);
    return;
  }
  message *const kept = dump(from, is_announced);
  if (kept == nullptr)
    return;
  queue_of(is_tagged).add(*kept);
  if (is_announced)
    return;
  from.message = kept;
  from.to = link::target::dump;
  from.place = scatter{kept->bytes(), from.about.size};
}

// A receive takes a message: it leaves its queue, unless it takes more. False: it has no room for
// this one and is done.
bool engine_core::make_place(receive &into, incoming &about, std::byte *&to) {
  to =
      into.part_count == 0 ? nullptr : static_cast<std::byte *>(into.parts[0].iov_base) + into.used;
  uint64_t const room = into.capacity - into.used;
  if (into.many_size != 0 && about.size > room && into.used != 0) {
    retire(into);
    return false;
  }
  about.fits = std::min(about.size, room);
  if (into.many_size == 0) {
    if (into.queued)
      queue_of(into.tagged).remove(into);
    return true;
  }
  into.used += about.fits;
  into.arriving++;
  if (into.capacity - into.used < into.many_size) {
    into.closed = true;
    if (into.queued)
      queue_of(into.tagged).remove(into);
  }
  return true;
}

// A receive for many messages takes no more.
void engine_core::retire(receive &into) {
  into.closed = true;
  if (into.queued)
    queue_of(into.tagged).remove(into);
  if (into.arriving != 0)
    return;
  completion done = into.done;
  done.kind = completion_kind::buffer;
  complete(done);
  receives_.drop(&into);
}

scatter engine_core::place_of(const receive &into, const incoming &about, std::byte *to) {
  if (into.many_size != 0)
    return {to, about.fits};
  return scatter{std::span{into.parts.data(), into.part_count}};
}

void engine_core::finish_receive(receive *into, const incoming &about, std::byte *to,
                                 status code) noexcept {
  completion done = into->done;
  done.kind = completion_kind::receive;
  done.tagged = into->tagged;
  done.size = about.fits;
  done.lost = about.size - about.fits;
  done.code = code == status::ok && done.lost != 0 ? status::overflow : code;
  done.tag = about.tag;
  done.data = about.data;
  done.has_data = (about.flags & wire::o2g::has_data) != 0;
  done.source = about.source;
  done.buffer = to;
  bool is_done = true;
  if (into->many_size != 0) {
    into->arriving--;
    is_done = into->closed && into->arriving == 0;
  }
  done.buffer_done = is_done;
  bool const is_wanted =
      !into->quiet || done.code != status::ok || (into->many_size != 0 && is_done);
  if (is_done)
    receives_.drop(into);
  if (is_wanted)
    complete(done);
  if (code == status::ok && (about.flags & wire::o2g::wants_ack) != 0) {
    link *const back = peers_[about.source].current;
    if (back != nullptr && back->serial == about.serial)
      acknowledge(*back, about.id, status::ok);
  }
}

// The next message of this link does not fit.
void engine_core::end_at_hard_limit(const link &from) {
  std::array<char, 512> reason{};
  auto const number = [](uint64_t value) {
    return static_cast<unsigned long long>(value);
  };
  uint64_t kept_count = 0;
  for (peer const &each : peers_)
    kept_count += each.kept_count;
  std::snprintf(reason.data(), reason.size(),
                "%llu messages, %llu bytes, have come that no receive was posted for, and the next "
                "one, of %llu bytes, goes beyond "
                "TND_O2G_DUMP_HARD=%llu. %llu of them are from %s. Post receives earlier, send "
                "fewer messages ahead of them, or raise "
                "TND_O2G_DUMP_HARD",
                number(kept_count), number(counts_.dump_size), number(from.about.size),
                number(options_.dump_size_hard), number(peers_[from.peer].kept_count),
                to_text(peers_[from.peer].address).c_str());
  wire::o2g::envelope notice;
  notice.id = kept_count;
  notice.address = counts_.dump_size;
  notice.tag = options_.dump_size_hard;
  end_with(status::no_space, reason.data(), notice);
}

// Null: there is no room, and the engine has ended.
message *engine_core::dump(link &from, bool is_announced) {
  uint64_t const size = sizeof(message) + (is_announced ? 0 : from.about.size);
  bool const is_full = counts_.dump_size + size > options_.dump_size_hard;
  void *const memory = is_full ? nullptr : dump_memory_.take(size);
  if (memory == nullptr && !is_full) {
    out_of_memory();
    return nullptr;
  }
  if (is_full) {
    end_at_hard_limit(from);
    return nullptr;
  }
  auto *const kept = new (memory) message;
  kept->key = {from.about.tag, from.about.source};
  kept->now = is_announced ? message::state::announced : message::state::arriving;
  kept->about = from.about;
  kept->from = &from;
  kept->allocated = size;
  peers_[from.peer].kept_count++;
  counts_.unexpected_count++;
  counts_.dump_size += size;
  counts_.dump_size_highest = std::max(counts_.dump_size_highest, counts_.dump_size);
  is_dump_moved_ = true;
  return kept;
}

// It is in no queue any more.
void engine_core::drop(message *what) noexcept {
  uint64_t const size = what->allocated;
  peers_[what->about.source].kept_count--;
  counts_.dump_size -= size;
  is_dump_moved_ = true;
  what->~message();
  dump_memory_.give(what, size);
}

// A message that was coming into the dump has been taken by a receive: the rest goes there.
void engine_core::switch_dump(link &from) {
  if (from.to != link::target::dump)
    return;
  message *const kept = from.message;
  if (kept->taken_by == nullptr)
    return;
  from.message = nullptr;
  from.receive = kept->taken_by;
  from.about = kept->about;
  from.receive_to = kept->taken_to;
  from.to = link::target::receive;
  from.place = place_of(*from.receive, from.about, from.receive_to);
  from.place.put({kept->bytes(), kept->received});
  drop(kept);
}

void engine_core::dump_ended(link &from) {
  switch_dump(from);
  if (from.to == link::target::receive) {
    from.to = link::target::nothing;
    return finish_receive(from.receive, from.about, from.receive_to, status::ok);
  }
  if (from.to != link::target::dump)
    return;
  message *const kept = std::exchange(from.message, nullptr);
  from.to = link::target::nothing;
  kept->now = message::state::whole;
  kept->from = nullptr;
  if (kept->dropped)
    discard(kept);
}

// A receive has taken an announced message.
void engine_core::pull(const pulled_message &what) noexcept {
  std::unique_ptr<pulled_message> kept{new (std::nothrow) pulled_message{what}};
  envelope head;
  head.what = uint8_t(kind::pull);
  head.id = what.about.id;
  head.address = kept == nullptr ? 0 : pulling_.add(kept.get());
  head.size = what.about.fits;
  operation *const question = head.address == 0 ? nullptr : make_operation(head, {});
  if (question == nullptr) {
    pulling_.take(head.address);
    out_of_memory();
    return finish_receive(what.into, what.about, what.to, status::no_memory);
  }
  (void)kept.release();
  question->silent = true;
  say(*what.from, question);
}

void engine_core::pulled(link &from) {
  pulled_message *const found = pulling_.find(from.head.id);
  if (found == nullptr || found->from != &from || from.head.size != found->about.fits)
    return broken(from, "a body that nobody pulled");
  std::unique_ptr<pulled_message> const what{pulling_.take(from.head.id)};
  from.receive = what->into;
  from.about = what->about;
  from.receive_to = what->to;
  from.to = link::target::receive;
  from.place = place_of(*from.receive, from.about, from.receive_to);
}

void engine_core::answer_pull(link &from) {
  operation *const what = waiting_.find(from.head.id);
  if (what == nullptr || what->via != &from || what->in_queue ||
      what->head.what != uint8_t(kind::announce) || from.head.size > what->head.size)
    return broken(from, "a pull of what was not announced");
  bool const is_acknowledged = (what->head.flags & wire::o2g::wants_ack) != 0;
  what->head.what = uint8_t(kind::body);
  what->head.id = from.head.address;
  what->head.size = from.head.size;
  what->body_size = from.head.size;
  what->handed = 0;
  if (!is_acknowledged) {
    waiting_.take(what->id);
    what->id = 0;
  }
  from.push(what);
  flush(from);
}

void engine_core::acknowledged(link &from) {
  operation *const what = waiting_.find(from.head.id);
  if (what == nullptr || what->via != &from || what->in_queue)
    return broken(from, "thanks for what it was not given");
  bool const is_question =
      what->head.what == uint8_t(kind::get) || (what->head.flags & wire::o2g::fetches) != 0;
  status const code = wire::status_of(int32_t(from.head.data));
  if (is_question && code == status::ok)
    return broken(from, "thanks for a question, and no answer");
  waiting_.take(from.head.id);
  what->id = 0;
  finish(what, code);
}

}  // namespace tanada::o2g
