// Bytes to and from a connection.

#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr size_t gather_count_max = 64;  // parts of one send
constexpr uint64_t gather_size_max = 1 << 20;
constexpr uint64_t joined_size_max = 4096;  // bytes

// The rest of an operation, as parts. How many.
size_t parts_of(const operation &what, std::span<iovec> into) {
  size_t count = 0;
  uint64_t skip = what.handed;
  auto const add = [&](const void *addr, uint64_t size) {
    uint64_t const skipped = std::min(skip, size);
    skip -= skipped;
    if (size == skipped)
      return;
    into[count++] = {const_cast<char *>(static_cast<const char *>(addr)) + skipped, size - skipped};
  };
  if (!what.is_bare)
    add(&what.head, sizeof what.head);
  uint64_t body = what.body_size;
  for (iovec const &part : what.body()) {
    uint64_t const size = std::min<uint64_t>(part.iov_len, body);
    add(part.iov_base, size);
    body -= size;
  }
  return count;
}

}  // namespace

// Before the first byte goes: a message that the receiver has no room for is announced instead.
// False: no memory.
bool engine_core::begin(link &to, operation &what) noexcept {
  bool const is_large = what.head.what == uint8_t(kind::message) && !what.must_not_wait &&
                        what.head.size > std::max(to.room_there, unannounced_size);
  if (!is_large)
    return true;
  if (what.id == 0)
    what.id = waiting_.add(&what);
  if (what.id == 0) {
    out_of_memory();
    return false;
  }
  what.head.what = uint8_t(kind::announce);
  what.body_size = 0;
  what.head.id = what.id;
  counts_.announced_count++;
  return true;
}

void engine_core::flush(link &to) noexcept {
  if (to.is_self)
    return feed_self(to);
  uncork(to);
  while (to.first != nullptr && !to.blocked && to.now == link::phase::up && !is_out_of_memory_) {
    std::array<iovec, gather_count_max> parts;
    size_t count = 0;
    uint64_t size = 0;
    for (operation *what = to.first; what != nullptr; what = what->behind) {
      if (count + part_count_max + 1 > parts.size() || size >= gather_size_max)
        break;
      if (what->handed == 0 && !begin(to, *what))
        return;
      count += parts_of(*what, std::span{parts}.subspan(count));
      size = size_of({parts.data(), count});
    }
    uint64_t taken = count > 1 && size <= joined_size_max
                         ? hand_over_joined(to, {parts.data(), count})
                         : hand_over(to, {parts.data(), count});
    to.blocked = taken < size;
    while (taken > 0) {
      operation *const what = to.first;
      uint64_t const part = std::min(taken, what->size() - what->handed);
      what->handed += part;
      taken -= part;
      if (what->handed == what->size())
        handed_over(to.pop());
    }
  }
}

// How many bytes the system took. Where it failed, `ended` follows.
uint64_t engine_core::hand_over(const link &via, std::span<const iovec> parts) noexcept try {
  auto const sent = set_->send(via.stream, parts);
  return sent.ok() ? result<size_t>{sent}.value() : 0;
} catch (const std::bad_alloc &) {
  out_of_memory();
  return 0;
}

// As one part, which is cheaper for the system than several.
uint64_t engine_core::hand_over_joined(const link &to, std::span<const iovec> parts) noexcept {
  std::array<std::byte, joined_size_max> joined;
  size_t size = 0;
  for (iovec const &part : parts) {
    std::memcpy(joined.data() + size, part.iov_base, part.iov_len);
    size += part.iov_len;
  }
  iovec const all{joined.data(), size};
  return hand_over(to, {&all, 1});
}

// Those that wait for an answer are found again by their number.
void engine_core::handed_over(operation *what) noexcept {
  what->via->answers_size -= what->answer_size;
  what->copy = nullptr;  // what has a copy goes once
  if (what->id == 0)
    finish(what, status::ok);
}

// What is said to oneself is heard at once; what that makes us say waits for its turn.
void engine_core::feed_self(link &self) noexcept {
  if (self.feeding)
    return;
  self.feeding = true;
  while (self.first != nullptr && !is_out_of_memory_) {
    operation *const what = self.first;
    if (!begin(self, *what))
      break;
    self.pop();
    std::array<iovec, part_count_max + 1> parts;
    envelope const head = what->head;
    size_t const count = parts_of(*what, parts);
    parts[0].iov_base = const_cast<envelope *>(&head);
    bool const is_answered = what->id != 0;  // then the answer may free it
    heard([&] {
      for (size_t i = 0; i < count; i++)
        feed(self, {static_cast<const std::byte *>(parts[i].iov_base), parts[i].iov_len});
    });
    if (!is_answered)
      handed_over(what);
  }
  self.feeding = false;
}

std::span<std::byte> engine_core::landing(uint64_t word) {
  link &from = *reinterpret_cast<link *>(word);
  // The system works for a while before it shows what has come: the other lines that a message
  // touches are there by then.
  for (size_t line = 1; line < link::hot_line_count; line++)
    __builtin_prefetch(reinterpret_cast<const std::byte *>(&from) + line * link::line_size, 1);
  if (from.rest < landing_size_min || from.to == link::target::small || from.now != link::phase::up)
    return {};
  auto const front = from.place.front();
  if (front.size() < landing_size_min || !begin_use(from))
    return {};
  return front.first(std::min<uint64_t>(front.size(), from.rest));
}

void engine_core::landed(uint64_t word, size_t size) {
  heard([&] { land(*reinterpret_cast<link *>(word), size); });
}

void engine_core::land(link &from, size_t size) {
  if (from.now != link::phase::up)
    return;
  if (from.in_use)
    from.range.in->end_use();
  from.in_use = false;
  TND_ASSERT(size <= from.rest);
  from.place.advance(size);
  from.rest -= size;
  if (from.to == link::target::dump)
    from.message->received += size;
  switch_dump(from);
  if (from.rest == 0)
    end_body(from);
}

size_t engine_core::shown(uint64_t word, std::span<const std::byte> bytes) {
  heard([&] { feed(*reinterpret_cast<link *>(word), bytes); });
  return bytes.size();
}

// Takes all.
void engine_core::feed(link &from, std::span<const std::byte> bytes) {
  for (auto rest = bytes; !rest.empty() && from.now != link::phase::gone;) {
    if (from.rest != 0) {
      rest = rest.subspan(feed_body(from, rest));
      continue;
    }
    size_t const size = std::min(from.partial.size() - from.partial_size, rest.size());
    if (size == from.partial.size()) {
      std::memcpy(&from.head, rest.data(), size);
    } else {
      std::memcpy(from.partial.data() + from.partial_size, rest.data(), size);
      from.partial_size += uint32_t(size);
      if (from.partial_size == from.partial.size())
        std::memcpy(&from.head, from.partial.data(), sizeof from.head);
    }
    rest = rest.subspan(size);
    if (size == from.partial.size() || from.partial_size == from.partial.size())
      feed_envelope(from);
  }
}

size_t engine_core::feed_body(link &from, std::span<const std::byte> bytes) {
  switch_dump(from);
  auto const mine = bytes.first(std::min<uint64_t>(bytes.size(), from.rest));
  if (begin_use(from))
    from.place.put(mine);  // what finds no room is dropped
  if (from.in_use)
    from.range.in->end_use();
  from.in_use = false;
  if (from.to == link::target::dump)
    from.message->received += mine.size();
  from.rest -= mine.size();
  if (from.rest == 0)
    end_body(from);
  return mine.size();
}

// Of memory that others can take away. False: it is gone, and the rest of the body goes nowhere.
bool engine_core::begin_use(link &from) {
  if (from.to != link::target::region || from.in_use)
    return true;
  from.in_use = from.range.in->begin_use();
  if (from.in_use)
    return true;
  from.to = link::target::nothing;
  from.place = {};
  from.refused = status::fault;
  return false;
}

void engine_core::feed_envelope(link &from) {
  from.partial_size = 0;
  if (wire::o2g::envelope_check(from.head) != status::ok)
    return broken(from, "what is no envelope");
  auto const what = kind(from.head.what);
  bool const is_greeting = what == kind::hello || what == kind::welcome || what == kind::refuse;
  if (from.now != link::phase::crossed && is_greeting != (from.now == link::phase::greeting))
    return broken(from, is_greeting ? "a second greeting" : "no greeting");
  from.rest = wire::o2g::following_size(from.head);
  from.to = link::target::nothing;
  from.place = {};
  if (from.now != link::phase::crossed)
    arrived(from);
  if (from.rest == 0 && from.now != link::phase::gone)
    end_body(from);
}

// Somebody says what we never would: it is not one of us, or out of step.
void engine_core::broken(link &from, const char *what) noexcept {
  complain([&] {
    log(log_level::warning, "o2g: %s says %s: the connection ends",
        to_text(set_->peer(from.stream)).c_str(), what);
  });
  lose(from, status::protocol);
}

}  // namespace tanada::o2g
