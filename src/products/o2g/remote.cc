// One-sided operations, ours and those of others on our memory.

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint64_t copied_answer_size_max = 16384;          // bytes
constexpr uint64_t answers_size_max = uint64_t{256} << 20;  // bytes, of one peer

uint8_t flags_of(bool delivered, bool has_data) {
  return uint8_t((delivered ? wire::o2g::wants_ack : 0) | (has_data ? wire::o2g::has_data : 0));
}

}  // namespace

status engine_core::post_put(const remote_request &request) {
  return post(&engine_core::put, completion_kind::put, request);
}

status engine_core::put(const remote_request &request) {
  uint64_t const size = size_of(request.parts);
  if (request.parts.size() > part_count_max || size != request.remote.size ||
      size > wire::o2g::message_size_max || (request.inject && size > inject_size_max))
    return status::invalid;
  if (names_null(request.parts))
    return status::invalid;
  auto const found = link_to(request.to);
  if (!found.ok())
    return found.error();
  link &via = *result<link *>{found}.value();
  if (is_full(via))
    return status::again;
  envelope head;
  head.what = uint8_t(kind::put);
  head.flags = flags_of(request.delivered, request.has_data);
  head.size = size;
  head.tag = request.remote.key;
  head.data = request.data;
  head.address = request.remote.address;
  operation *const what = make_request(head, request.parts, request.inject, request.delivered);
  if (what == nullptr)
    return status::no_memory;
  what->done = {.kind = completion_kind::put,
                .context = request.context,
                .owner = request.owner,
                .size = size};
  what->quiet = request.quiet;
  patience_.sent(clock_.now_ns());
  say(via, what, request.more);
  return status::ok;
}

status engine_core::post_get(const remote_request &request) {
  return post(&engine_core::get, completion_kind::get, request);
}

status engine_core::get(const remote_request &request) {
  uint64_t const size = size_of(request.parts);
  if (request.parts.size() > part_count_max || size != request.remote.size ||
      size > wire::o2g::message_size_max)
    return status::invalid;
  if (names_null(request.parts))
    return status::invalid;
  auto const found = link_to(request.to);
  if (!found.ok())
    return found.error();
  link &via = *result<link *>{found}.value();
  if (is_full(via))
    return status::again;
  envelope head;
  head.what = uint8_t(kind::get);
  head.size = size;
  head.tag = request.remote.key;
  head.address = request.remote.address;
  operation *const what = make_request(head, {}, false, true);
  if (what == nullptr)
    return status::no_memory;
  what->answer = scatter{request.parts};
  what->done = {.kind = completion_kind::get,
                .context = request.context,
                .owner = request.owner,
                .size = size};
  what->quiet = request.quiet;
  patience_.sent(clock_.now_ns());
  say(via, what);
  return status::ok;
}

status engine_core::post_atomic(const atomic_request &request) {
  bool const fetches = !request.fetched.empty();
  return post(&engine_core::apply, fetches ? completion_kind::fetch : completion_kind::atomic,
              request);
}

status engine_core::apply(const atomic_request &request) {
  bool const fetches = !request.fetched.empty();
  uint64_t const element = size_of(request.type);
  bool const is_read = request.operation == atomic_operation::read;
  bool const compares = needs_compared(request.operation);
  uint64_t const size = request.remote.size;
  bool const fits = size != 0 && size <= atomic_size_max && size % element == 0 &&
                    request.operands.size() == (is_read ? 0 : size) &&
                    request.compared.size() == (compares ? size : 0) &&
                    (!fetches || request.fetched.size() == size) && (fetches || !is_read);
  if (!fits || !is_supported(request.type, request.operation))
    return status::invalid;
  std::array<iovec, 2> const body{
      iovec{const_cast<std::byte *>(request.operands.data()), request.operands.size()},
      iovec{const_cast<std::byte *>(request.compared.data()), request.compared.size()}};
  iovec const fetched{request.fetched.data(), request.fetched.size()};
  if (names_null(body) || names_null({&fetched, 1}))
    return status::invalid;
  auto const found = link_to(request.to);
  if (!found.ok())
    return found.error();
  link &via = *result<link *>{found}.value();
  if (!request.goes_on && is_full(via))
    return status::again;
  envelope head;
  head.what = uint8_t(kind::atomic);
  bool const can_wait = request.can_wait && request.delivered && !fetches;
  head.flags = uint8_t(flags_of(request.delivered && !fetches, false) |
                       (fetches ? wire::o2g::fetches : 0) | (can_wait ? wire::o2g::can_wait : 0));
  head.type = uint8_t(request.type);
  head.operation = uint8_t(request.operation);
  head.data = size;
  head.size = request.operands.size() + request.compared.size();
  head.tag = request.remote.key;
  head.address = request.remote.address;
  operation *const what = make_request(head, body, request.inject, fetches || request.delivered);
  if (what == nullptr)
    return status::no_memory;
  what->done = {.kind = fetches ? completion_kind::fetch : completion_kind::atomic,
                .context = request.context,
                .owner = request.owner,
                .size = size};
  what->quiet = request.quiet;
  if (fetches)
    what->answer = scatter{request.fetched.data(), request.fetched.size()};
  patience_.sent(clock_.now_ns());
  say(via, what);
  return status::ok;
}

void engine_core::acknowledge(link &to, uint64_t id, status code, bool can_wait) noexcept {
  envelope head;
  head.what = uint8_t(kind::ack);
  head.id = id;
  head.data = uint64_t(uint32_t(int(code)));
  operation *const what = make_operation(head, {});
  if (what == nullptr)
    return out_of_memory();
  what->silent = true;
  if (!can_wait || !keep_for_later(to, what))
    answer(to, what);
}

void engine_core::count_answer(link &to, operation *what) noexcept {
  what->answer_size = sizeof *what + (what->copy != nullptr ? what->body_size : 0);
  to.answers_size += what->answer_size;
}

// A peer that asks and does not read what it asked for is not waited for.
void engine_core::answer(link &to, operation *what) noexcept {
  count_answer(to, what);
  if (what->body_size != 0)
    has_data_to_answer_ = true;
  say(to, what, is_driving_);
  if (to.answers_size > answers_size_max)
    broken(to, "nothing, and asks for more than it reads");
}

// What a peer asks of our memory and does not get.
void engine_core::deny(link &from, status code) {
  from.refused = code;
  complain([&] {
    log(log_level::warning, "o2g: %s asks for %llu bytes at %#llx with key %#llx: %s",
        to_text(peers_[from.peer].address).c_str(), static_cast<unsigned long long>(from.head.size),
        static_cast<unsigned long long>(from.head.address),
        static_cast<unsigned long long>(from.head.tag),
        code == status::no_entry ? "there is no such key"
        : code == status::access ? "not allowed"
                                 : "not all of it is there");
  });
}

void engine_core::begin_put(link &from) {
  from.refused = status::ok;
  auto range =
      memory_.reach(from.head.tag, from.head.address, from.head.size, {.remote_write = true});
  if (!range.ok())
    return deny(from, range.error());
  from.range = std::move(range).value();
  from.to = link::target::region;
  from.place = scatter{from.range.addr, from.head.size};
}

// A peer's operation on our memory has been done.
void engine_core::tell_remote(const link &from, completion_kind what, uint64_t size) {
  bool const has_data =
      kind(from.head.what) == kind::put && (from.head.flags & wire::o2g::has_data) != 0;
  if (!has_data && !options_.hears_remote)
    return;
  completion done;
  done.kind = what;
  done.size = size;
  done.tag = from.head.tag;
  done.has_data = has_data;
  if (has_data)
    done.data = from.head.data;
  done.source = from.peer;
  complete(done);
}

void engine_core::end_put(link &from) {
  from.range = {};
  from.to = link::target::nothing;
  if (from.refused == status::ok)
    tell_remote(from, completion_kind::remote_put, from.head.size);
  if ((from.head.flags & wire::o2g::wants_ack) != 0)
    acknowledge(from, from.head.id, from.refused, (from.head.flags & wire::o2g::can_wait) != 0);
}

// Small answers are copied; large ones hold the region until they are handed over.
void engine_core::begin_get(link &from) {
  from.refused = status::ok;
  auto range =
      memory_.reach(from.head.tag, from.head.address, from.head.size, {.remote_read = true});
  if (!range.ok()) {
    deny(from, range.error());
    return acknowledge(from, from.head.id, from.refused);
  }
  region_range const source = std::move(range).value();
  envelope head;
  head.what = uint8_t(kind::got);
  head.id = from.head.id;
  head.size = from.head.size;
  iovec const body{source.addr, from.head.size};
  operation *const what = make_operation(head, {&body, 1});
  if (what == nullptr)
    return out_of_memory();
  what->silent = true;
  what->serving = region_use{source.in};
  bool const is_there = bool(what->serving);
  bool const is_kept = is_there && (head.size > copied_answer_size_max || keep_copy(*what));
  if (!is_kept) {
    operations_.drop(what);
    return acknowledge(from, from.head.id, is_there ? status::no_memory : status::fault);
  }
  if (what->copy != nullptr)
    what->serving = {};
  tell_remote(from, completion_kind::remote_get, from.head.size);
  answer(from, what);
}

// A put that does not come to its end, answers that nobody reads.
void engine_core::drop_closed() {
  lock_guard const lock{mutex_};
  for (size_t i = 0; i < links_.size(); i++) {
    link &each = *links_[i];
    bool uses = each.in_use && each.range.in->is_closed();
    for (operation *at = each.first; at != nullptr && !uses; at = at->behind)
      uses = at->serving.is_closed();
    if (!uses)
      continue;
    complain([&] {
      log(log_level::warning,
          "o2g: %s does not let go of memory that is taken away: the connection ends",
          to_text(set_->peer(each.stream)).c_str());
    });
    lose(each, status::fault);
  }
  end_if_out_of_memory();
}

void engine_core::begin_answer(link &from) {
  operation *const what = waiting_.find(from.head.id);
  bool const is_got = kind(from.head.what) == kind::got;
  bool const fits = what != nullptr && what->via == &from && !what->in_queue &&
                    what->answer.room() == from.head.size &&
                    what->head.what == uint8_t(is_got ? kind::get : kind::atomic);
  if (!fits)
    return broken(from, "an answer that nobody asked for");
  waiting_.take(from.head.id);
  what->id = 0;
  from.asked = what;
  from.to = link::target::answer;
  from.place = what->answer;
}

void engine_core::end_answer(link &from) {
  operation *const what = from.asked;
  from.asked = nullptr;
  from.to = link::target::nothing;
  if (what != nullptr)
    finish(what, status::ok);
}

void engine_core::begin_atomic(link &from) {
  from.refused = status::ok;
  auto const type = atomic_type(from.head.type);
  auto const operation = atomic_operation(from.head.operation);
  uint64_t const size = from.head.data;
  bool const known = from.head.type < atomic_type_count &&
                     from.head.operation < atomic_operation_count && is_supported(type, operation);
  uint64_t const operand_size = operation == atomic_operation::read ? 0
                                : needs_compared(operation)         ? 2 * size
                                                                    : size;
  if (!known || size == 0 || size > atomic_size_max || size % size_of(type) != 0 ||
      from.head.size != operand_size)
    return broken(from, "an atomic that makes no sense");
  from.small.resize(from.head.size);
  from.place = scatter{from.small.data(), from.small.size()};
  from.to = link::target::small;
}

void engine_core::end_atomic(link &from) {
  uint64_t const size = from.head.data;
  bool const fetches = (from.head.flags & wire::o2g::fetches) != 0;
  auto const operation = atomic_operation(from.head.operation);
  bool const is_read = operation == atomic_operation::read;
  from.to = link::target::nothing;
  std::span<const std::byte> const operands{from.small.data(), is_read ? 0 : size};
  std::span<const std::byte> const compared{from.small.data() + operands.size(),
                                            needs_compared(operation) ? size : 0};
  auto range = memory_.reach(from.head.tag, from.head.address, size,
                             {.remote_read = fetches, .remote_write = !is_read});
  envelope head;
  head.what = uint8_t(kind::fetched);
  head.id = from.head.id;
  head.size = size;
  o2g::operation *found = nullptr;
  if (fetches) {
    found = make_operation(head, {});
    if (found == nullptr)
      return out_of_memory();
    found->silent = true;
    found->copy.reset(new (std::nothrow) std::byte[size]);
    if (found->copy == nullptr) {
      operations_.drop(found);
      return out_of_memory();
    }
    found->parts[0] = {found->copy.get(), size};
    found->part_count = 1;
    found->body_size = size;
  }
  if (!range.ok()) {
    deny(from, range.error());
  } else {
    region_range const target = std::move(range).value();
    atomic_arguments const arguments{
        atomic_type(from.head.type), operation, operands, compared,
        fetches ? std::span{found->copy.get(), size} : std::span<std::byte>{}};
    bool const used = target.in->begin_use();
    from.refused =
        used ? atomic_apply(arguments, target.addr, size / size_of(arguments.type)) : status::fault;
    if (used)
      target.in->end_use();
  }
  if (from.refused == status::ok)
    tell_remote(from, fetches ? completion_kind::remote_get : completion_kind::remote_put, size);
  if (fetches && from.refused == status::ok)
    return answer(from, found);
  if (found != nullptr)
    operations_.drop(found);
  if (fetches || (from.head.flags & wire::o2g::wants_ack) != 0)
    acknowledge(from, from.head.id, from.refused, (from.head.flags & wire::o2g::can_wait) != 0);
}

}  // namespace tanada::o2g
