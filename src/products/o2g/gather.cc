// Operations that do not go at once: made, put into their link's queue or gathered, finished.
//
// None of these throws. Where memory is missing for something that was begun, out_of_memory() is
// noted: from then on nothing is sent and nothing that comes is heard, and the call or the drive
// that is under way ends the engine when it is done.

#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint64_t gathered_size_max = 16384;  // bytes of one send
constexpr uint32_t corked_count_max = 31;      // operations: what one send takes

}  // namespace

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
  if (!could_go || (is_driving_ && what.body_size > small_body_size_max))
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

}  // namespace tanada::o2g
