// Requests: begun, sent at once where that is possible, else left to their link's queue.

#include <algorithm>

#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint32_t burst_count_min = 16;     // messages to one peer, each soon after the one before
constexpr uint64_t burst_pause_ns = 20'000;  // how soon

// What a look at a message tells.
completion found_of(const message &what) {
  completion done;
  done.kind = completion_kind::receive;
  done.tagged = (what.about.flags & wire::o2g::tagged) != 0;
  done.size = what.about.size;
  done.tag = what.about.tag;
  done.data = what.about.data;
  done.has_data = (what.about.flags & wire::o2g::has_data) != 0;
  done.source = what.about.source;
  return done;
}

bool are_good(std::span<const iovec> parts) {
  return parts.size() <= part_count_max;
}

}  // namespace

// Bytes at the address NULL, such as MPI_BOTTOM that an MPI passes on as it is, would be a fault in
// the middle of something.
bool engine_core::names_null(std::span<const iovec> parts) noexcept {
  auto const found = std::ranges::find_if(
      parts, [](const iovec &part) { return part.iov_base == nullptr && part.iov_len != 0; });
  if (found == parts.end())
    return false;
  complain([&] {
    log(log_level::error,
        "o2g: a request with %llu bytes at the address NULL fails: pass the address of the data",
        static_cast<unsigned long long>(found->iov_len));
  });
  return true;
}

// Not by its status: Open MPI ignores what starting a persistent request returns, and would wait
// for ever.
status engine_core::fail_at_once(completion done) noexcept {
  done.code = status::fault;
  complete(done);
  return status::ok;
}

// A peer that does not read what it is told is not waited for, and what waits for it is bounded.
// Its requests are refused; whoever tries again and again, and never polls, is helped by what this
// does.
bool engine_core::is_full(const link &via) {
  if (is_catching_up_ || !via.is_full())
    return false;
  drive();
  return true;
}

// A send costs a microsecond of the kernel's time whatever its size. A program that sends many
// small messages to one peer, one after the other, without ever asking what has come, does not wait
// for an answer to any of them: from the 17th on they are gathered, and go with the next poll, with
// the next message that is not small, or when there is enough of them; or when the engine's own
// thread takes over, if the program goes off to compute.
bool engine_core::gathers(link &via, uint64_t size) {
  uint64_t const visit = attendance_.visits(), now_ns = clock_.now_ns();
  bool const goes_on = via.burst_visit == visit && now_ns < via.burst_ns + burst_pause_ns;
  patience_.sent(now_ns);
  via.burst_visit = visit;
  via.burst_ns = now_ns;
  via.burst_count = goes_on ? via.burst_count + 1 : 0;
  return via.burst_count >= burst_count_min && size <= inject_size_max;
}

// How many bytes of envelope and body the system took.
uint64_t engine_core::send_now(const link &via, const envelope &head,
                               std::span<const iovec> body) noexcept {
  std::array<iovec, part_count_max + 1> parts;
  std::array<std::byte, sizeof head + small_body_size_max> joined;
  size_t count = body.size() + 1;
  if (head.size <= small_body_size_max) {  // one part is cheaper than two
    std::memcpy(joined.data(), &head, sizeof head);
    size_t at = sizeof head;
    for (iovec const &part : body) {
      if (part.iov_len != 0)
        std::memcpy(joined.data() + at, part.iov_base, part.iov_len);
      at += part.iov_len;
    }
    parts[0] = {joined.data(), at};
    count = 1;
  } else {
    parts[0] = {const_cast<envelope *>(&head), sizeof head};
    std::ranges::copy(body, parts.begin() + 1);
  }
  return hand_over(via, {parts.data(), count});
}

status engine_core::post_send(const send_request &request) {
  return post(&engine_core::send, completion_kind::send, request);
}

status engine_core::send(const send_request &request) {
  uint64_t const size = size_of(request.parts);
  if (!are_good(request.parts) || size > wire::o2g::message_size_max ||
      (request.inject && size > inject_size_max))
    return status::invalid;
  if (names_null(request.parts)) {
    if (request.inject)
      return status::invalid;
    return fail_at_once({.kind = completion_kind::send,
                         .tagged = request.tagged,
                         .context = request.context,
                         .owner = request.owner});
  }
  auto const found = link_to(request.to);
  if (!found.ok())
    return found.error();
  link &via = *result<link *>{found}.value();
  if (is_full(via))
    return status::again;

  envelope head;
  head.what = uint8_t(kind::message);
  head.flags = uint8_t((request.tagged ? wire::o2g::tagged : 0) |
                       (request.has_data ? wire::o2g::has_data : 0) |
                       (request.delivered ? wire::o2g::wants_ack : 0));
  head.size = size;
  head.tag = request.tag;
  head.data = request.data;
  counts_.sent_count++;

  completion done;
  done.kind = completion_kind::send;
  done.tagged = request.tagged;
  done.context = request.context;
  done.owner = request.owner;
  done.size = size;
  done.tag = request.tag;
  uint64_t handed = 0;
  bool const is_flood = gathers(via, size);
  bool const goes_at_once = via.now == link::phase::up && via.first == nullptr && !via.blocked &&
                            !via.is_self && !request.delivered &&
                            size <= std::max(via.room_there, unannounced_size);
  if (goes_at_once && is_flood) {
    gather(via, head, request.parts);
    if (!request.quiet)
      complete(done);
    return status::ok;
  }
  if (!via.gathered.empty())
    send_gathered(via);
  if (goes_at_once && via.first == nullptr && !is_out_of_memory_) {
    handed = send_now(via, head, request.parts);
    if (handed == sizeof head + size) {
      if (!request.quiet)
        complete(done);
      return status::ok;
    }
    via.blocked = true;
  }
  operation *const what = make_request(head, request.parts, request.inject, request.delivered);
  if (what == nullptr) {
    if (handed != 0)
      lose(via, status::no_memory);  // half an envelope cannot be taken back
    return status::no_memory;
  }
  what->done = done;
  what->quiet = request.quiet;
  what->handed = handed;
  what->must_not_wait = request.inject;
  say(via, what);
  return status::ok;
}

// Null: no memory.
receive *engine_core::make_receive(const receive_request &request) noexcept {
  receive *const into = receives_.make();
  if (into == nullptr)
    return nullptr;
  std::ranges::copy(request.parts, into->parts.begin());
  into->part_count = uint32_t(request.parts.size());
  into->capacity = size_of(request.parts);
  into->done.context = request.context;
  into->done.owner = request.owner;
  into->quiet = request.quiet;
  into->tagged = request.tagged;
  return into;
}

status engine_core::post_receive(const receive_request &request) {
  return post(&engine_core::receive_into, completion_kind::receive, request);
}

status engine_core::receive_into(const receive_request &request) {
  if (!are_good(request.parts) || (request.many_size != 0 && request.parts.size() != 1))
    return status::invalid;
  if (names_null(request.parts))
    return fail_at_once({.kind = completion_kind::receive,
                         .tagged = request.tagged,
                         .context = request.context,
                         .owner = request.owner});
  receive *const into = make_receive(request);
  if (into == nullptr)
    return status::no_memory;
  into->pattern = request.pattern;
  if (!request.tagged) {
    into->pattern.tag = 0;
    into->pattern.ignore = 0;
  }
  into->many_size = request.many_size;
  matcher &queue = queue_of(request.tagged);
  for (;;) {
    arrived_entry *const found = queue.find_arrived(into->pattern);
    if (found == nullptr)
      break;
    auto *const came = static_cast<message *>(found);
    std::byte *to = nullptr;
    if (!make_place(*into, came->about, to))
      return told();  // it is full, and was retired
    queue.remove(*came);
    bool const is_done = into->many_size == 0 || into->closed;  // it may be freed by the next call
    take(into, came, to);
    if (is_done)
      return told();
  }
  bool const is_named = into->pattern.source < peers_.size();
  if (is_named && peers_[into->pattern.source].lost &&
      peers_[into->pattern.source].current == nullptr) {
    fail_receive(into, status::peer_lost);
    return told();
  }
  queue.add(*into);
  return told();
}

// Announcements of room that the posted receive made necessary.
status engine_core::told() noexcept {
  if (is_dump_moved_)
    tell_room();
  return status::ok;
}

// A receive takes a message that stood in a queue, or was claimed.
void engine_core::take(receive *into, message *came, std::byte *to) noexcept {
  switch (came->now) {
    case message::state::whole: {
      place_of(*into, came->about, to).put({came->bytes(), came->about.size});
      incoming const about = came->about;
      drop(came);
      return finish_receive(into, about, to, status::ok);
    }
    case message::state::arriving:
      came->taken_by = into;
      came->taken_to = to;
      return;
    case message::state::lost: {
      incoming const about = came->about;
      drop(came);
      return finish_receive(into, about, to, status::peer_lost);
    }
    case message::state::announced:
      pulled_message const what{into, to, came->from, came->about};
      drop(came);
      return pull(what);
  }
}

// Nobody wants it. It is in no queue.
void engine_core::discard(message *what) noexcept {
  if (what->now == message::state::arriving) {
    what->dropped = true;
    return;
  }
  bool const wants_answer =
      what->now == message::state::announced || (what->about.flags & wire::o2g::wants_ack) != 0;
  link *const back =
      what->now == message::state::announced ? what->from : peers_[what->about.source].current;
  if (wants_answer && back != nullptr && back->serial == what->about.serial)
    acknowledge(*back, what->about.id, status::ok);
  drop(what);
}

status engine_core::post_peek(const peek_request &request) {
  return post(&engine_core::peek, completion_kind::receive, request);
}

status engine_core::peek(const peek_request &request) {
  matcher &queue = queue_of(request.tagged);
  match_pattern pattern = request.pattern;
  if (!request.tagged) {
    pattern.tag = 0;
    pattern.ignore = 0;
  }
  auto *const found = static_cast<message *>(queue.find_arrived(pattern));
  completion done;
  done.kind = completion_kind::receive;
  done.tagged = request.tagged;
  done.context = request.context;
  done.owner = request.owner;
  done.code = status::no_entry;
  if (found != nullptr) {
    done = found_of(*found);
    done.context = request.context;
    done.owner = request.owner;
    if (request.claim && !request.discard) {
      claims_.emplace(request.context, found);  // before anything else: there may be no memory
      found->claimed_with = request.context;
    }
    if (request.claim || request.discard)
      queue.remove(*found);
    if (request.discard)
      discard(found);
  }
  complete(done);
  return told();
}

status engine_core::post_receive_claimed(const receive_request &request) {
  return post(&engine_core::receive_claimed, completion_kind::receive, request);
}

status engine_core::receive_claimed(const receive_request &request) {
  auto const found = claims_.find(request.context);
  if (found == claims_.end())
    return status::no_entry;
  if (!are_good(request.parts) || names_null(request.parts))
    return status::invalid;
  receive *const into = make_receive(request);
  if (into == nullptr)
    return status::no_memory;
  message *const came = found->second;
  claims_.erase(found);
  std::byte *to = nullptr;
  make_place(*into, came->about, to);
  take(into, came, to);
  return told();
}

status engine_core::discard_claimed(void *context, bool is_quiet, void *owner) {
  return post(&engine_core::discard_found, completion_kind::receive,
              discard_request{context, is_quiet, owner});
}

status engine_core::discard_found(const discard_request &request) {
  auto const found = claims_.find(request.context);
  if (found == claims_.end())
    return status::no_entry;
  message *const came = found->second;
  claims_.erase(found);
  completion done = found_of(*came);
  done.context = request.context;
  done.owner = request.owner;
  discard(came);
  if (!request.is_quiet)
    complete(done);
  return told();
}

status engine_core::cancel(void *context) {
  status const code = post(&engine_core::cancel_posted, std::nullopt, cancel_request{context});
  return code == status::ok || code == status::again ? code : status::no_entry;
}

status engine_core::cancel_posted(const cancel_request &request) {
  for (matcher *queue : {&tagged_, &plain_}) {
    auto *const found = static_cast<receive *>(queue->find_posted_if([&](posted_entry &entry) {
      return static_cast<receive &>(entry).done.context == request.context;
    }));
    if (found == nullptr)
      continue;
    queue->remove(*found);
    fail_receive(found, status::canceled);
    return status::ok;
  }
  return status::no_entry;
}

// A receive that is in no queue ends without a message.
void engine_core::fail_receive(receive *what, status code) noexcept {
  what->closed = true;
  if (what->many_size != 0 && what->arriving != 0)
    return;  // the last message on its way ends it
  completion done = what->done;
  done.kind = completion_kind::receive;
  done.tagged = what->tagged;
  done.code = code;
  receives_.drop(what);
  complete(done);
}

}  // namespace tanada::o2g
