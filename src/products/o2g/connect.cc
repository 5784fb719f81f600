// Connections: made on first use, greeted, lost.

#include <algorithm>

#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

#include <tanada/status.h>

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::hello_message;
using wire::o2g::kind;

link &engine_core::make_link(link::phase phase) {
  auto made = std::make_unique<link>();
  made->serial = ++serial_;
  made->now = phase;
  made->full = &full_peers_;
  gathering_.reserve(links_.size() + 1);  // noted there without a failure
  links_.push_back(std::move(made));
  link &kept = *links_.back();
  if (phase != link::phase::up) {
    kept.deadline_ns = port::deadline_after(clock_.now_ns(), options_.connect_timeout_ns);
    deadline_first_ns_ = std::min(deadline_first_ns_, kept.deadline_ns);
    if (young_count_++ == 0 && options_.has_thread)
      set_->wake();  // it may sleep without an end
  }
  return kept;
}

status engine_core::open(peer_index index) {
  peer &to = peers_[index];
  bool const is_self = to.address == options_.at;
  link &made = make_link(is_self ? link::phase::up : link::phase::connecting);
  made.peer = index;
  made.is_self = is_self;
  made.outgoing = true;
  if (is_self) {
    made.room_most = room();
    made.room_there = made.room_most;
    to.current = &made;
    return status::ok;
  }
  auto const stream = connect(made, to.address);
  if (!stream.ok()) {
    if (is_out_of_memory_) {
      leave(made);  // the set may know it
      return stream.error();
    }
    young_count_--;
    links_.pop_back();
    return stream.error();
  }
  made.stream = result<port::stream_id>{stream}.value();
  to.current = &made;
  return status::ok;
}

// Where there is no memory, nobody knows what the set has begun: the engine ends.
result<port::stream_id> engine_core::connect(link &with, const port::socket_address &to) noexcept
    try {
  return set_->connect(to, options_.at, reinterpret_cast<uint64_t>(&with));
} catch (const std::bad_alloc &) {
  out_of_memory();
  return status::no_memory;
}

uint64_t engine_core::accepted(port::stream_id id) {
  link *made = nullptr;
  heard([&] { made = &make_link(link::phase::greeting); });
  if (made == nullptr) {
    close(id);
    made = &nobody_;
  } else {
    made->stream = id;
  }
  return reinterpret_cast<uint64_t>(made);
}

void engine_core::connected(uint64_t word) {
  link &with = *reinterpret_cast<link *>(word);
  if (with.now == link::phase::gone)
    return;
  with.now = link::phase::greeting;
  heard([&] { greet(with, kind::hello, {}); });
}

// A fresh connection has room for it.
void engine_core::greet(link &with, kind what, const std::string &reason) {
  hello_message mine;
  mine.port = options_.at.port;
  mine.family = uint8_t(options_.at.family);
  mine.bytes = options_.at.bytes;
  mine.endpoint = endpoint_;
  with.room_most = room();
  with.room_told = with.room_most;
  mine.room = with.room_most;
  mine.cookie = options_.cookie;
  std::vector<std::byte> body;
  if (what == kind::refuse) {
    auto const text = std::as_bytes(std::span{reason});
    body.assign(text.begin(), text.end());
  } else {
    wire::encode(mine, body);
  }
  envelope head;
  head.what = uint8_t(what);
  head.size = body.size();
  std::array<iovec, 2> const parts{iovec{&head, sizeof head}, iovec{body.data(), body.size()}};
  auto sent = set_->send(with.stream, parts);
  if (sent.ok() && std::move(sent).value() != sizeof head + body.size())
    broken(with, "it takes no greeting");
}

void engine_core::refuse(link &with, const std::string &reason) {
  complain([&] {
    log(log_level::warning, "o2g: %s is refused: %s", to_text(set_->peer(with.stream)).c_str(),
        reason.c_str());
  });
  greet(with, kind::refuse, reason);
  lose(with, status::access);
}

void engine_core::greeted(link &with, kind what) {
  if (with.outgoing == (what == kind::hello))
    return broken(with, "the wrong greeting");
  if (what == kind::refuse) {
    complain([&] {
      log(log_level::error, "o2g: %s refuses this endpoint: %.*s",
          to_text(set_->peer(with.stream)).c_str(), int(with.small.size()),
          reinterpret_cast<const char *>(with.small.data()));
    });
    return lose(with, status::access);
  }
  hello_message said;
  // The version comes first: what another one says behind it is not ours to judge.
  if (with.small.size() >= sizeof said.version)
    std::memcpy(&said.version, with.small.data(), sizeof said.version);
  bool const is_ours = said.version == wire::o2g::protocol_version;
  if (is_ours && wire::decode(with.small, said) != status::ok)
    return broken(with, "half a greeting");
  if (said.version != wire::o2g::protocol_version)
    return refuse(with, "it speaks version " + std::to_string(said.version) +
                            " of the protocol, this is " +
                            std::to_string(wire::o2g::protocol_version));
  if (said.cookie != options_.cookie)
    return refuse(with, "it belongs to another job (TND_O2G_COOKIE)");
  if (ended_ != status::ok)
    return refuse(with,
                  std::string{"this endpoint has ended: "} + tnd_status_text(tnd_status(ended_)));
  if (what == kind::welcome)
    return come_up(with, with.peer, said);

  port::socket_address const address{port::socket_address::family_kind(said.family), said.bytes,
                                     said.port, 0};
  bool const is_address = said.family == 4 || said.family == 6;
  port::socket_address const seen = set_->peer(with.stream);
  // We connect from the address that we listen at, and so does everybody.
  bool const is_its_own = seen.family == address.family && seen.bytes == address.bytes;
  if (!is_address || !is_its_own || said.port == 0 || address == options_.at)
    return broken(with, "that it has no address of its own");
  auto const found = stranger_at(address);
  if (!found.ok())
    return refuse(with, "there are too many peers, or there is no memory for one more");
  auto const index = result<peer_index>{found}.value();
  link *const other = peers_[index].current;
  // It died and was started again before we knew; or it has lost the connection that it made, else
  // it would not make another.
  bool const is_anew = other != nullptr && other->now == link::phase::up &&
                       (peers_[index].endpoint != said.endpoint || !other->outgoing);
  if (is_anew) {
    lose(*other, status::peer_lost);
  } else if (other != nullptr) {
    // Both connected at a time: the connection of the lower address stays.
    bool const ours_stays = other->now == link::phase::up || options_.at < address;
    if (ours_stays) {
      with.now = link::phase::crossed;
      with.peer = index;
      with.said = said;
      return;
    }
    while (other->first != nullptr)
      with.push(other->pop());
    leave(*other);
    with.peer = index;
    peers_[index].current = &with;
  }
  greet(with, kind::welcome, {});
  if (with.now == link::phase::greeting)
    come_up(with, index, said);
}

void engine_core::come_up(link &with, peer_index index, const hello_message &said) {
  peer &at = peers_[index];
  at.current = &with;
  at.lost = false;
  at.endpoint = said.endpoint;
  with.peer = index;
  with.now = link::phase::up;
  with.room_there = said.room;
  with.deadline_ns = 0;
  young_count_--;
  room_last_ = ~uint64_t{0};  // what was said in the greeting may be true no more
  is_dump_moved_ = true;
  flush(with);
}

void engine_core::writable(uint64_t word) {
  if (is_out_of_memory_)
    return;
  link &to = *reinterpret_cast<link *>(word);
  to.blocked = false;
  if (to.now == link::phase::up)
    flush(to);
}

void engine_core::ended(uint64_t word, status why) {
  link &with = *reinterpret_cast<link *>(word);
  if (&with == &nobody_)
    return;
  with.stream = port::no_stream;
  if (with.now == link::phase::crossed)
    return leave(with);
  if (with.now == link::phase::gone)
    return;
  bool const is_young = with.now != link::phase::up;
  if (is_young && with.outgoing)
    complain([&] {
      log(log_level::warning, "o2g: no connection to %s: %s",
          to_text(peers_[with.peer].address).c_str(), tnd_status_text(tnd_status(why)));
    });
  lose(with, is_young ? why : status::peer_lost);
}

// The connection is nobody's any more; the link itself goes when nobody up the stack can be in it.
void engine_core::leave(link &with) noexcept {
  if (with.now != link::phase::up)
    young_count_--;
  with.now = link::phase::gone;
  has_gone_ = true;
  std::erase(gathering_, &with);
  uncork(with);
  if (with.stream != port::no_stream)
    close(with.stream);
}

void engine_core::close(port::stream_id id) noexcept try {
  set_->close(id);
} catch (const std::bad_alloc &) {
  out_of_memory();
}

void engine_core::lose(link &with, status why) noexcept {
  if (with.now == link::phase::gone)
    return;
  bool const was_up = with.now == link::phase::up;
  leave(with);
  bool const was_current = with.peer != any_peer && peers_[with.peer].current == &with;
  if (was_current) {
    peers_[with.peer].current = nullptr;
    peers_[with.peer].lost = true;
    if (ended_ == status::ok && !is_mute_)
      heard([&] { revive(with, was_up); });
  }
  lose_incoming(with, why);
  pulling_.take_if([&](pulled_message &each) { return each.from == &with; },
                   [&](pulled_message *each) {
                     finish_receive(each->into, each->about, each->to, why);
                     delete each;
                   });
  waiting_.take_if([&](operation &each) { return each.via == &with && !each.in_queue; },
                   [&](operation *each) { finish(each, why); });
  while (with.first != nullptr) {
    operation *const what = with.pop();
    if (what->id != 0)
      waiting_.take(what->id);
    finish(what, why);
  }
  bool const is_replaced =
      was_current && !was_up &&
      peers_[with.peer].current != nullptr;  // nothing has come by it, nothing is lost
  if (!was_current || with.said_bye || is_replaced)
    return;
  for (matcher *queue : {&tagged_, &plain_})
    queue->find_posted_if([&](posted_entry &entry) {
      if (entry.pattern.source != with.peer)
        return false;
      queue->remove(entry);
      fail_receive(static_cast<receive *>(&entry), why);
      return false;
    });
}

// The connection that should have stayed failed: the other side's, which crossed it, takes its
// place, and what has not been begun to be said.
void engine_core::revive(link &lost, bool was_up) {
  for (size_t i = 0; i < links_.size(); i++) {
    link &heir = *links_[i];
    if (heir.now != link::phase::crossed || heir.peer != lost.peer)
      continue;
    while (!was_up && lost.first != nullptr)
      heir.push(lost.pop());
    heir.now = link::phase::greeting;
    greet(heir, kind::welcome, {});
    if (heir.now == link::phase::greeting)
      come_up(heir, heir.peer, heir.said);
    return;
  }
}

// What was on its way, and what was announced, does not come.
void engine_core::lose_incoming(link &with, status why) noexcept {
  if (with.in_use)
    with.range.in->end_use();
  with.in_use = false;
  auto const to = std::exchange(with.to, link::target::nothing);
  with.rest = 0;
  with.place = {};
  if (to == link::target::receive)
    finish_receive(with.receive, with.about, with.receive_to, why);
  if (to == link::target::answer)
    finish(std::exchange(with.asked, nullptr), why);
  auto const is_lost = [&](message &each) {
    return each.from == &with;
  };
  for (matcher *queue : {&tagged_, &plain_})
    queue->find_arrived_if([&](arrived_entry &entry) {
      if (!is_lost(static_cast<message &>(entry)))
        return false;
      queue->remove(entry);
      if (with.message == &entry)
        with.message = nullptr;
      drop(static_cast<message *>(&entry));
      return false;
    });
  for (auto const &[context, claimed] : claims_) {
    if (!is_lost(*claimed))
      continue;
    if (with.message == claimed)
      with.message = nullptr;
    claimed->now = message::state::lost;
    claimed->from = nullptr;
  }
  message *const rest =
      std::exchange(with.message, nullptr);  // taken by a receive, or dropped, while it arrived
  if (to != link::target::dump || rest == nullptr)
    return;
  if (rest->taken_by != nullptr)
    finish_receive(rest->taken_by, rest->about, rest->taken_to, why);
  drop(rest);
}

void engine_core::check_deadlines() noexcept {
  uint64_t const now_ns = clock_.now_ns();
  if (now_ns < deadline_first_ns_)
    return;
  deadline_first_ns_ = ~uint64_t{0};
  for (size_t i = 0; i < links_.size(); i++) {
    link &each = *links_[i];
    if (each.deadline_ns == 0 || each.now == link::phase::gone)
      continue;
    if (now_ns < each.deadline_ns) {
      deadline_first_ns_ = std::min(deadline_first_ns_, each.deadline_ns);
      continue;
    }
    if (each.now == link::phase::crossed) {
      leave(each);
    } else {
      if (each.outgoing)
        complain([&] {
          log(log_level::warning, "o2g: %s does not answer",
              to_text(peers_[each.peer].address).c_str());
        });
      lose(each, status::timed_out);
    }
  }
}

}  // namespace tanada::o2g
