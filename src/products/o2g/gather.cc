// Operations: made, put into their link's queue or gathered, finished.
//
// None of these throws. Where memory is missing for something that was begun, out_of_memory() is
// noted: from then on nothing is sent and nothing that comes is heard, and the call or the drive
// that is under way ends the engine when it is done.

#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint64_t joined_size_max = 1024;   // bytes
constexpr uint32_t burst_count_min = 16;     // messages to one peer, each soon after the one before
constexpr uint64_t burst_pause_ns = 20'000;  // how soon
constexpr uint64_t gathered_size_max = 16384;  // bytes of one send
constexpr uint32_t corked_count_max = 31;      // operations: what one send takes

}  // namespace

void engine_core::complete(const completion &done) noexcept {
  if (is_mute_)
    return;
  idle_.found();  // whoever hears of it has not waited in vain
  try {
    sink_.complete(done);
  } catch (const std::bad_alloc &) {
    out_of_memory();
  }
  if (attendance_.has_sleepers())
    set_->wake();
}

// Null: no memory.
operation *engine_core::make_operation(const envelope &head, std::span<const iovec> body) noexcept {
  operation *const made = operations_.make();
  if (made == nullptr)
    return nullptr;
  made->head = head;
  made->part_count = uint32_t(body.size());
  std::ranges::copy(body, made->parts.begin());
  made->body_size = size_of(body);
  return made;
}

// The caller wants its memory back.
bool engine_core::keep_copy(operation &what) noexcept {
  if (what.body_size == 0)
    return true;
  what.copy.reset(new (std::nothrow) std::byte[what.body_size]);
  if (what.copy == nullptr)
    return false;
  std::byte *to = what.copy.get();
  for (iovec const &part : what.body()) {
    if (part.iov_len != 0)
      std::memcpy(to, part.iov_base, part.iov_len);
    to += part.iov_len;
  }
  what.parts[0] = {what.copy.get(), what.body_size};
  what.part_count = 1;
  return true;
}

// An operation of the program, with its number if it waits for an answer. Null: no memory, and
// nothing was begun.
operation *engine_core::make_request(const envelope &head, std::span<const iovec> body, bool copies,
                                     bool is_answered) noexcept {
  operation *const made = make_operation(head, body);
  if (made == nullptr)
    return nullptr;
  bool const is_kept = !copies || keep_copy(*made);
  if (is_kept && is_answered) {
    made->id = waiting_.add(made);
    made->head.id = made->id;
  }
  if (is_kept && (!is_answered || made->id != 0))
    return made;
  operations_.drop(made);
  return nullptr;
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

void engine_core::say(link &via, operation *what, bool has_time) noexcept {
  if (!via.gathered.empty())
    send_gathered(via);
  push(via, what, has_time);
}

void engine_core::push(link &via, operation *what, bool has_time) noexcept {
  bool const was_empty = via.first == nullptr;
  via.push(what);
  if (has_time && cork(via, *what, was_empty))
    return;
  if (was_empty || via.is_self || via.is_corked)
    flush(via);
}

// Answers to what has come in one go, and a put and the request that is to follow it, go together,
// in the order of the queue: at the end of the drive, or when gathered messages would. Where the
// engine's thread drives, nobody is about to poll. False: at once.
bool engine_core::cork(link &via, const operation &what, bool was_empty) noexcept {
  if (!is_driving_ && (attendance_.has_taken_over() || attendance_.has_sleepers()))
    return false;
  bool const could_go =
      via.now == link::phase::up && !via.blocked && !via.is_self && (was_empty || via.is_corked);
  if (!could_go || (is_driving_ && what.body_size > joined_size_max))
    return false;
  if (!std::exchange(via.is_corked, true) || via.is_late) {
    if (std::exchange(via.is_late, false))
      std::erase(late_, &via);
    else
      via.corked_count = 0;
    gathering_.push_back(&via);
  }
  return ++via.corked_count < corked_count_max;
}

// At the end of a drive. Acknowledgements may wait for the program's next call; nobody waits for
// them as for data.
void engine_core::send_answers() noexcept {
  bool const may_wait =
      !has_data_to_answer_ && !attendance_.has_taken_over() && !attendance_.has_sleepers();
  if (!may_wait || !patience_.waits(clock_.now_ns()))
    send_all_gathered();
}

void engine_core::uncork(link &via) noexcept {
  if (std::exchange(via.is_corked, false))
    std::erase(std::exchange(via.is_late, false) ? late_ : gathering_, &via);
}

// An acknowledgement that nobody waits for costs both sides as much as data when it goes alone. It
// goes before whatever is said to the peer next, or when there are many, or after late_ns, or
// before this side sleeps. False: now.
bool engine_core::keep_for_later(link &via, operation *what) noexcept {
  if (!via.gathered.empty())
    send_gathered(via);
  bool const could_go = via.now == link::phase::up && !via.blocked && !via.is_self &&
                        (via.first == nullptr || via.is_corked);
  if (!could_go || attendance_.has_taken_over() || attendance_.has_sleepers())
    return false;
  count_answer(via, what);
  via.push(what);
  if (!std::exchange(via.is_corked, true)) {
    via.corked_count = 0;
    via.is_late = true;
    if (late_.empty())
      late_since_ns_ = clock_.now_ns();
    late_.push_back(&via);
  }
  if (++via.corked_count >= corked_count_max)
    flush(via);
  return true;
}

void engine_core::send_all_late() noexcept {
  while (!late_.empty())
    flush(*late_.back());
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

void engine_core::gather(link &via, const envelope &head, std::span<const iovec> body) {
  if (via.gathered.empty()) {
    via.gathered.reserve(gathered_size_max + sizeof head +
                         inject_size_max);  // what follows cannot fail half-way
    gathering_.push_back(&via);
    if (attendance_.has_taken_over() || attendance_.has_sleepers())
      set_->wake();
  }
  auto const append = [&](const void *from, size_t size) {
    auto const *const bytes = static_cast<const std::byte *>(from);
    via.gathered.insert(via.gathered.end(), bytes, bytes + size);
  };
  append(&head, sizeof head);
  for (iovec const &part : body)
    append(part.iov_base, part.iov_len);
  if (via.gathered.size() >= gathered_size_max)
    send_gathered(via);
}

// As an operation like any other, whose envelopes stand in its body.
void engine_core::send_gathered(link &via) noexcept {
  if (via.is_corked)
    return flush(via);
  std::erase(gathering_, &via);
  if (via.gathered.empty())
    return;
  iovec const body{via.gathered.data(), via.gathered.size()};
  operation *const what = make_operation({}, {&body, 1});
  if (what == nullptr)
    return out_of_memory();
  what->silent = true;
  what->is_bare = true;
  what->must_not_wait = true;
  if (!keep_copy(*what)) {
    operations_.drop(what);
    return out_of_memory();
  }
  via.gathered.clear();
  push(via, what);
}

void engine_core::send_all_gathered() noexcept {
  while (!gathering_.empty())
    send_gathered(*gathering_.back());
}

// It is in no queue and waits for no answer.
void engine_core::finish(operation *what, status code) noexcept {
  completion done = what->done;
  bool const is_wanted = !what->silent && (!what->quiet || code != status::ok);
  operations_.drop(what);
  done.code = code;
  if (is_wanted)
    complete(done);
}

// How many bytes of envelope and body the system took.
uint64_t engine_core::send_now(const link &via, const envelope &head,
                               std::span<const iovec> body) noexcept {
  std::array<iovec, part_count_max + 1> parts;
  std::array<std::byte, sizeof head + joined_size_max> joined;
  size_t count = body.size() + 1;
  if (head.size <= joined_size_max) {  // one part is cheaper than two
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

// How many bytes the system took. Where it failed, `ended` follows.
uint64_t engine_core::hand_over(const link &via, std::span<const iovec> parts) noexcept try {
  auto const sent = set_->send(via.stream, parts);
  return sent.ok() ? result<size_t>{sent}.value() : 0;
} catch (const std::bad_alloc &) {
  out_of_memory();
  return 0;
}

}  // namespace tanada::o2g
