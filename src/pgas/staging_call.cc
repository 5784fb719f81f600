// Calls: what contexts ask the call_server of a peer for, and what ours is asked.
#include "pgas/staging_state.hpp"

namespace tanada::pgas {

using staging::record;
using staging::record_kind;

size_t staged_context::message_size_max() const noexcept { return stager_.inside().message_size_max(); }
size_t staged_context::call_size_max() const noexcept { return stager_.inside().options_.slot_size; }

status staged_context::call(pe_index pe, size_t size, const std::function<void(std::span<std::byte>)> &fill) {
  if (size == 0 || size > call_size_max()) return status::invalid;
  TND_TRY(tell());
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  status const code = inside.call(lock, *this, pe, size, fill);
  inside.leave(lock, false);
  return code;
}

status staged_context::fetch(pe_index pe, std::span<const std::byte> request, size_t size, call_landing &to, uint64_t first) {
  if (request.empty() || request.size() > message_size_max() || size == 0 || size > call_size_max()) return status::invalid;
  TND_TRY(tell());
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  status const code = inside.fetch(lock, *this, pe, request, size, {.landing = &to, .first = first});
  inside.leave(lock, false);
  return code;
}

status stager::state::call(held &lock, staged_context &owner, pe_index pe, size_t size, const filler &fill) {
  if (size <= data_size_max_) {
    TND_TRY(room(lock, pe));
    std::byte *data = nullptr;
    ask(owner, pe, {.kind = record_kind::call, .data_size = uint32_t(size), .size = size}, {}, &data);
    fill({data, size});
    return status::ok;
  }
  auto taken = slot_take(lock, pe);
  if (!taken.ok()) return taken.error();
  uint32_t const slot = taken.value();
  if (status const code = room(lock, pe); code != status::ok) {
    slot_free(pe, slot);
    return code;
  }
  fill({slot_at(slot), size});
  ask(owner, pe, {.kind = record_kind::call_staged, .size = size, .first = slot * options_.slot_size}, {.slot = slot}, nullptr);
  return status::ok;
}

status stager::state::fetch(held &lock, staged_context &owner, pe_index pe, std::span<const std::byte> words, size_t size, aim to) {
  bool const is_staged = size > inline_size_max();
  if (is_staged) {
    auto taken = slot_take(lock, pe);
    if (!taken.ok()) return taken.error();
    to.slot = taken.value();
  }
  if (status const code = room(lock, pe); code != status::ok) {
    if (is_staged) slot_free(pe, to.slot);
    return code;
  }
  std::byte *data = nullptr;
  ask(owner, pe, {.kind = is_staged ? record_kind::fetch_staged : record_kind::fetch, .data_size = uint32_t(words.size()), .size = size},
      to, &data);
  std::memcpy(data, words.data(), words.size());
  return status::ok;
}

// False: it has to wait for a slot.
bool stager::state::serve_call(pe_index pe, const record &what, std::span<const std::byte> data) {
  if (options_.calls == nullptr) return reply(pe, what.id, status::not_supported), true;
  if (what.kind == record_kind::call) return reply(pe, what.id, options_.calls->serve(pe, data, {})), true;
  if (what.kind == record_kind::fetch) return serve_fetch(pe, what, data), true;
  uint32_t const index = service_take(pe, what);
  if (index == none) return false;
  if (what.kind == record_kind::call_staged) return true;
  status const code = options_.calls->serve(pe, data, {slot_at(slot_count_ + index), size_t(what.size)});
  if (code == status::ok) return offer(index), true;
  service_free(index);
  return reply(pe, what.id, code), true;
}

// In as many parts as fill the frames. One more is not refused in the middle: the answer is whole before the first is said.
void stager::state::serve_fetch(pe_index pe, const record &what, std::span<const std::byte> words) {
  auto const size = size_t(what.size);
  if (scratch_.size() < size) scratch_.resize(size);
  status const code = options_.calls->serve(pe, words, {scratch_.data(), size});
  if (code != status::ok) return reply(pe, what.id, code);
  for (size_t done = 0, part = 0; done < size; done += part) {
    part = data_room(pe, size - done);
    std::byte *const to = say(pe, {.kind = record_kind::reply, .data_size = uint32_t(part), .id = what.id, .offset = done,
                                   .size = what.size, .first = staging::status_encode(status::ok)});
    std::memcpy(to, scratch_.data() + done, part);
  }
  peers_[size_t(pe)].asked--;
}

}  // namespace tanada::pgas
