// Requests.

#include "base/assert.hpp"
#include "base/log.hpp"
#include "o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

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

bool are_good(std::span<const iovec> parts) { return parts.size() <= part_count_max; }

constexpr uint64_t joined_size_max = 1024;      // bytes
constexpr uint32_t burst_count_min = 16;       // messages to one peer, each soon after the one before
constexpr uint64_t burst_pause_ns = 20'000;    // how soon
constexpr uint64_t gathered_size_max = 16384;  // bytes of one send

}  // namespace

void engine_core::complete(const completion &done) {
  if (is_mute_) return;
  idle_.found();  // whoever hears of it has not waited in vain
  sink_.complete(done);
  if (attendance_.has_sleepers()) set_->wake();
}

operation *engine_core::make_operation(const envelope &head, std::span<const iovec> body) {
  operation *const made = operations_.make();
  made->head = head;
  made->part_count = uint32_t(body.size());
  std::ranges::copy(body, made->parts.begin());
  made->body_size = size_of(body);
  return made;
}

// The caller wants its memory back.
bool engine_core::keep_copy(operation &what) {
  if (what.body_size == 0) return true;
  what.copy.reset(new (std::nothrow) std::byte[what.body_size]);
  if (what.copy == nullptr) return false;
  std::byte *to = what.copy.get();
  for (iovec const &part : what.body()) {
    std::memcpy(to, part.iov_base, part.iov_len);
    to += part.iov_len;
  }
  what.parts[0] = {what.copy.get(), what.body_size};
  what.part_count = 1;
  return true;
}

void engine_core::say(link &via, operation *what) {
  if (!via.gathered.empty()) send_gathered(via);
  push(via, what);
}

void engine_core::push(link &via, operation *what) {
  bool const was_empty = via.first == nullptr;
  via.push(what);
  if (was_empty || via.is_self) flush(via);
}

// A send costs a microsecond of the kernel's time whatever its size. A program that sends many small messages to one peer, one
// after the other, without ever asking what has come, does not wait for an answer to any of them: from the 17th on they are
// gathered, and go with the next poll, with the next message that is not small, or when there is enough of them; or when the
// engine's own thread takes over, if the program goes off to compute.
bool engine_core::gathers(link &via, uint64_t size) {
  uint64_t const visit = attendance_.visits(), now_ns = clock_.now_ns();
  bool const goes_on = via.burst_visit == visit && now_ns < via.burst_ns + burst_pause_ns;
  via.burst_visit = visit;
  via.burst_ns = now_ns;
  via.burst_count = goes_on ? via.burst_count + 1 : 0;
  return via.burst_count >= burst_count_min && size <= inject_size_max;
}

void engine_core::gather(link &via, const envelope &head, std::span<const iovec> body) {
  if (via.gathered.empty()) {
    gathering_.push_back(&via);
    if (attendance_.has_taken_over() || attendance_.has_sleepers()) set_->wake();
  }
  auto const append = [&](const void *from, size_t size) {
    auto const *const bytes = static_cast<const std::byte *>(from);
    via.gathered.insert(via.gathered.end(), bytes, bytes + size);
  };
  append(&head, sizeof head);
  for (iovec const &part : body) append(part.iov_base, part.iov_len);
  if (via.gathered.size() >= gathered_size_max) send_gathered(via);
}

// As an operation like any other, whose envelopes stand in its body.
void engine_core::send_gathered(link &via) {
  std::erase(gathering_, &via);
  if (via.gathered.empty()) return;
  operation *const what = operations_.make();
  what->silent = true;
  what->is_bare = true;
  what->must_not_wait = true;
  what->body_size = via.gathered.size();
  what->copy.reset(new std::byte[what->body_size]);
  std::memcpy(what->copy.get(), via.gathered.data(), what->body_size);
  what->parts[0] = {what->copy.get(), what->body_size};
  what->part_count = 1;
  via.gathered.clear();
  push(via, what);
}

void engine_core::send_all_gathered() {
  while (!gathering_.empty()) send_gathered(*gathering_.back());
}

// It is in no queue and waits for no answer.
void engine_core::finish(operation *what, status code) {
  completion done = what->done;
  bool const is_wanted = !what->silent && (!what->quiet || code != status::ok);
  operations_.drop(what);
  done.code = code;
  if (is_wanted) complete(done);
}

// How many bytes of envelope and body the system took.
uint64_t engine_core::send_now(const link &via, const envelope &head, std::span<const iovec> body) {
  std::array<iovec, part_count_max + 1> parts;
  std::array<std::byte, sizeof head + joined_size_max> joined;
  size_t count = body.size() + 1;
  if (head.size <= joined_size_max) {  // one part is cheaper than two
    std::memcpy(joined.data(), &head, sizeof head);
    size_t at = sizeof head;
    for (iovec const &part : body) {
      if (part.iov_len != 0) std::memcpy(joined.data() + at, part.iov_base, part.iov_len);
      at += part.iov_len;
    }
    parts[0] = {joined.data(), at};
    count = 1;
  } else {
    parts[0] = {const_cast<envelope *>(&head), sizeof head};
    std::ranges::copy(body, parts.begin() + 1);
  }
  auto sent = set_->send(via.stream, {parts.data(), count}, port::send_mode::copied, nullptr);
  return sent.ok() ? std::move(sent).value() : 0;
}

status engine_core::post_send(const send_request &request) {
  std::lock_guard const lock{mutex_};
  TND_TRY(ended_);
  uint64_t const size = size_of(request.parts);
  if (!are_good(request.parts) || size > wire::o2g::message_size_max || (request.inject && size > inject_size_max))
    return status::invalid;
  auto const found = link_to(request.to);
  if (!found.ok()) return found.error();
  link &via = *result<link *>{found}.value();

  envelope head;
  head.what = uint8_t(kind::message);
  head.flags = uint8_t((request.tagged ? wire::o2g::tagged : 0) | (request.has_data ? wire::o2g::has_data : 0) |
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
  bool const goes_at_once = via.now == link::phase::up && via.first == nullptr && !via.blocked && !via.is_self &&
                            !request.delivered && size <= std::max(via.room_there, unannounced_size);
  if (goes_at_once && is_flood) {
    gather(via, head, request.parts);
    if (!request.quiet) complete(done);
    return status::ok;
  }
  if (!via.gathered.empty()) send_gathered(via);
  if (goes_at_once && via.first == nullptr) {
    handed = send_now(via, head, request.parts);
    if (handed == sizeof head + size) {
      if (!request.quiet) complete(done);
      return status::ok;
    }
    via.blocked = true;
  }
  operation *const what = make_operation(head, request.parts);
  what->done = done;
  what->quiet = request.quiet;
  what->handed = handed;
  what->must_not_wait = request.inject;
  if (request.inject && !keep_copy(*what)) {
    if (handed != 0) lose(via, status::no_memory);  // half an envelope cannot be taken back
    operations_.drop(what);
    return status::no_memory;
  }
  if (request.delivered) what->head.id = what->id = waiting_.add(what);
  say(via, what);
  return status::ok;
}

receive *engine_core::make_receive(const receive_request &request) {
  receive *const into = receives_.make();
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
  std::lock_guard const lock{mutex_};
  TND_TRY(ended_);
  if (!are_good(request.parts) || (request.many_size != 0 && request.parts.size() != 1)) return status::invalid;
  receive *const into = make_receive(request);
  into->pattern = request.pattern;
  if (!request.tagged) into->pattern.tag = into->pattern.ignore = 0;
  into->many_size = request.many_size;
  matcher &queue = queue_of(request.tagged);
  for (;;) {
    arrived_entry *const found = queue.find_arrived(into->pattern);
    if (found == nullptr) break;
    auto *const came = static_cast<message *>(found);
    std::byte *to = nullptr;
    if (!make_place(*into, came->about, to)) return told();  // it is full, and was retired
    queue.remove(*came);
    bool const is_done = into->many_size == 0 || into->closed;  // it may be freed by the next call
    take(into, came, to);
    if (is_done) return told();
  }
  bool const is_named = into->pattern.source < peers_.size();
  if (is_named && peers_[into->pattern.source].lost && peers_[into->pattern.source].current == nullptr) {
    fail_receive(into, status::peer_lost);
    return told();
  }
  queue.add(*into);
  return told();
}

// Announcements of room that the posted receive made necessary.
status engine_core::told() {
  if (is_dump_moved_) tell_room();
  return status::ok;
}

// A receive takes a message that stood in a queue, or was claimed.
void engine_core::take(receive *into, message *came, std::byte *to) {
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
void engine_core::discard(message *what) {
  if (what->now == message::state::arriving) {
    what->dropped = true;
    return;
  }
  bool const wants_answer = what->now == message::state::announced || (what->about.flags & wire::o2g::wants_ack) != 0;
  link *const back = what->now == message::state::announced ? what->from : peers_[what->about.source].current;
  if (wants_answer && back != nullptr && back->serial == what->about.serial) acknowledge(*back, what->about.id, status::ok);
  drop(what);
}

status engine_core::post_peek(const peek_request &request) {
  std::lock_guard const lock{mutex_};
  TND_TRY(ended_);
  matcher &queue = queue_of(request.tagged);
  match_pattern pattern = request.pattern;
  if (!request.tagged) pattern.tag = pattern.ignore = 0;
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
    if (request.claim || request.discard) queue.remove(*found);
    if (request.discard) {
      discard(found);
    } else if (request.claim) {
      found->claimed_with = request.context;
      claims_.emplace(request.context, found);
    }
  }
  complete(done);
  return told();
}

status engine_core::post_receive_claimed(const receive_request &request) {
  std::lock_guard const lock{mutex_};
  TND_TRY(ended_);
  auto const found = claims_.find(request.context);
  if (found == claims_.end()) return status::no_entry;
  if (!are_good(request.parts)) return status::invalid;
  message *const came = found->second;
  claims_.erase(found);
  receive *const into = make_receive(request);
  std::byte *to = nullptr;
  make_place(*into, came->about, to);
  take(into, came, to);
  return told();
}

status engine_core::discard_claimed(void *context, bool is_quiet, void *owner) {
  std::lock_guard const lock{mutex_};
  TND_TRY(ended_);
  auto const found = claims_.find(context);
  if (found == claims_.end()) return status::no_entry;
  message *const came = found->second;
  claims_.erase(found);
  completion done = found_of(*came);
  done.context = context;
  done.owner = owner;
  discard(came);
  if (!is_quiet) complete(done);
  return told();
}

status engine_core::cancel(void *context) {
  std::lock_guard const lock{mutex_};
  for (matcher *queue : {&tagged_, &plain_}) {
    auto *const found = static_cast<receive *>(
        queue->find_posted_if([&](posted_entry &entry) { return static_cast<receive &>(entry).done.context == context; }));
    if (found == nullptr) continue;
    queue->remove(*found);
    fail_receive(found, status::canceled);
    return status::ok;
  }
  return status::no_entry;
}

// A receive that is in no queue ends without a message.
void engine_core::fail_receive(receive *what, status code) {
  what->closed = true;
  if (what->many_size != 0 && what->arriving != 0) return;  // the last message on its way ends it
  completion done = what->done;
  done.kind = completion_kind::receive;
  done.tagged = what->tagged;
  done.code = code;
  receives_.drop(what);
  complete(done);
}

}  // namespace tanada::o2g
