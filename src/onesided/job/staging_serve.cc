// Requests of others, on our device's memory; calls: staging_call.cc.
#include <algorithm>

#include "onesided/job/staging_state.hpp"

namespace tanada::pgas {

using staging::record;
using staging::record_kind;

namespace {

// Whose data are to be read.
bool is_put(record_kind kind) {
  return kind == record_kind::put_staged || kind == record_kind::put_direct;
}

}  // namespace

// Nothing that it says is believed: what is outside of the heap, or of its own area, is refused;
// who asks for more at a time than it may is no peer.
void stager::state::requested(const record &what, std::span<const std::byte> data, pe_index pe) {
  auto &client = peers_[size_t(pe)];
  if (client.asked >= window)
    return lose(pe, status::protocol);
  client.asked++;
  if (status const code = staging::request_check(what, limits_of(pe)); code != status::ok)
    return reply(pe, what.id, code);
  if (client.waiting.empty() && serve(pe, what, data))
    return;
  client.waiting.push_back({what, {data.begin(), data.end()}});
  if (client.is_waiting)
    return;
  client.is_waiting = true;
  clients_.push_back(pe);
}

// One of each, in turn. False: there was nothing that could be started.
bool stager::state::serve_waiting() {
  bool has_started = false;
  for (size_t left = clients_.size(); left > 0; left--) {
    pe_index const pe = clients_.front();
    clients_.pop_front();
    auto &client = peers_[size_t(pe)];
    status const before = queue_code_;
    if (!client.waiting.empty() &&
        serve(pe, client.waiting.front().what, client.waiting.front().data)) {
      has_started = true;
      if (queue_code_ != before)
        withhold(client.waiting.front().data);
      client.waiting.pop_front();
    }
    client.is_waiting = !client.waiting.empty();
    if (client.is_waiting)
      clients_.push_back(pe);
  }
  return has_started;
}

// False: it cannot be started yet. All before it in the stream have been.
bool stager::state::serve(pe_index pe, const record &what, std::span<const std::byte> data) {
  auto &client = peers_[size_t(pe)];
  if ((what.flags & staging::flag_fenced) != 0) {
    if (client.reads != 0)
      return false;
    if (queue_ && queue_code_ == status::ok)
      static_cast<void>(queue_said(queue_->order()));
  }
  if (staging::is_call(what.kind))
    return serve_call(pe, what, data);
  if (queue_code_ != status::ok) {
    reply(pe, what.id, queue_code_);
    return true;
  }
  if (is_put(what.kind) || what.kind == record_kind::get_staged)
    return serve_staged(pe, what);
  if (what.kind == record_kind::update) {
    serve_update(pe, what);
    return true;
  }
  if (what.kind == record_kind::get) {
    serve_get(pe, what);
    return true;
  }
  deeds_.push_back({.pe = pe,
                    .id = what.id,
                    .code = queue_put(options_.heap.data() + what.offset, data),
                    .offset = what.offset,
                    .size = what.size});
  return true;
}

void stager::state::serve_update(pe_index pe, const record &what) {
  auto const kind = port::fabric_atomic(what.atomic);
  using enum port::fabric_atomic;
  bool const wants_value =
      (what.flags & staging::flag_wants_value) != 0 || kind == fetch || kind == compare_swap;
  uint64_t before = 0;
  port::word_update const update{kind, port::fabric_element(what.element), what.first, what.second};
  auto *const word = options_.heap.data() + what.offset;
  status const code = queue_said(queue_->update(word, update, wants_value ? &before : nullptr));
  size_t const size = kind == port::fabric_atomic::fetch                   ? 0
                      : what.element == uint8_t(port::fabric_element::u32) ? 4
                                                                           : 8;
  if (!wants_value)
    return deeds_.push_back(
        {.pe = pe, .id = what.id, .code = code, .offset = what.offset, .size = size});
  reply(pe, what.id, code, before);
  if (size != 0 && options_.changed)
    options_.changed(what.offset, size);
}

// In as many parts as fill the frames.
void stager::state::serve_get(pe_index pe, const record &what) {
  for (size_t done = 0, part = 0; done < what.size; done += part) {
    part = data_room(pe, what.size - done);
    status const code = queue_get(options_.heap.data() + what.offset + done, part);
    if (code != status::ok)
      return reply(pe, what.id, code);
    std::byte *const data = say(pe, {.kind = record_kind::reply,
                                     .data_size = uint32_t(part),
                                     .id = what.id,
                                     .offset = done,
                                     .size = what.size,
                                     .first = staging::status_encode(status::ok)});
    std::memcpy(data, scratch_.data(), part);
  }
  peers_[size_t(pe)].asked--;
}

// A slot for it; none: it has to wait for one.
uint32_t stager::state::service_take(pe_index pe, const record &what) {
  auto &client = peers_[size_t(pe)];
  uint32_t const most = peers_.size() > 2 ? (slot_count_ + 1) / 2 : slot_count_;
  if (services_free_.empty() || client.serving >= most)
    return none;
  uint32_t const index = services_free_.back();
  services_free_.pop_back();
  client.serving++;
  auto &of = services_[index];
  of = {.at = service::stage::reading,
        .pe = pe,
        .generation = of.generation + 1,
        .size = uint32_t(what.size),
        .id = what.id,
        .offset = what.offset,
        .is_call = staging::is_call(what.kind)};
  if (is_put(what.kind) || what.kind == record_kind::call_staged) {
    of.is_direct = what.kind == record_kind::put_direct;
    of.is_to_heap = is_direct() && !of.is_call;
    of.remote_offset = what.first;
    client.reads++;
    reads_due_.push_back(op_id(op_use::serve, index));
  }
  return index;
}

bool stager::state::serve_staged(pe_index pe, const record &what) {
  uint32_t const index = service_take(pe, what);
  if (index == none)
    return false;
  if (is_put(what.kind))
    return true;
  auto &of = services_[index];
  of.at = service::stage::performed;
  deeds_.push_back(
      {.is = deed::what::offer,
       .pe = pe,
       .id = what.id,
       .index = index,
       .code = queue_said(queue_->copy(slot_at(slot_count_ + index),
                                       options_.heap.data() + what.offset, what.size))});
  return true;
}

// What a peer puts has come.
void stager::state::served_data_here(uint32_t index, status code) {
  auto &of = services_[index];
  auto &client = peers_[size_t(of.pe)];
  client.reads--;
  of.is_posted = false;
  of.at = service::stage::performed;
  if (client.is_lost)
    return service_free(index);
  if (of.is_call && code == status::ok)
    return served_call_here(index);
  if (of.is_to_heap) {
    if (code == status::ok)
      code = heap_written();
    service_free(index);
    reply(of.pe, of.id, code);
    if (options_.changed)
      options_.changed(of.offset, of.size);
    return;
  }
  if (code == status::ok)
    code = queue_code_;
  if (code != status::ok) {
    service_free(index);
    return reply(of.pe, of.id, code);
  }
  status const copied = queue_said(
      queue_->copy(options_.heap.data() + of.offset, slot_at(slot_count_ + index), of.size));
  deeds_.push_back({.pe = of.pe,
                    .id = of.id,
                    .index = index,
                    .code = copied,
                    .offset = of.offset,
                    .size = of.size});
}

// By the fabric.
status stager::state::heap_written() {
  return options_.settle ? options_.settle() : status::ok;
}

// What was asked for lies in the slot.
void stager::state::offer(uint32_t index) {
  auto &of = services_[index];
  of.at = service::stage::offered;
  of.deadline_ns = deadline_ns();
  (void)say(of.pe, {.kind = record_kind::ready,
                    .id = of.id,
                    .size = of.size,
                    .first = (slot_count_ + index) * options_.slot_size,
                    .second = uint64_t(of.generation) << 32 | index});
}

// Only who was offered it gives it back.
void stager::state::done_with(const record &what, pe_index pe) {
  auto const index = uint32_t(what.id);
  if (index >= slot_count_)
    return;
  auto const &of = services_[index];
  if (of.at != service::stage::offered || of.pe != pe || of.generation != uint32_t(what.id >> 32))
    return;
  peers_[size_t(pe)].asked--;
  service_free(index);
}

void stager::state::service_free(uint32_t index) {
  auto &of = services_[index];
  of.at = service::stage::free;
  peers_[size_t(of.pe)].serving--;
  services_free_.push_back(index);
}

void stager::state::reply(pe_index pe, uint64_t id, status code, uint64_t value) {
  auto &client = peers_[size_t(pe)];
  if (client.is_lost)
    return;
  client.asked--;
  (void)say(pe, {.kind = record_kind::reply,
                 .id = id,
                 .first = staging::status_encode(code),
                 .second = value});
}

// What the fabric or the queue has is free when they let go of it.
void stager::state::lose_services(pe_index pe) {
  auto &client = peers_[size_t(pe)];
  client.waiting.clear();
  for (uint32_t i = 0; i < slot_count_; i++) {
    auto &of = services_[i];
    if (of.pe != pe || of.at == service::stage::free || of.at == service::stage::performed ||
        of.is_posted)
      continue;
    if (of.at == service::stage::reading)
      client.reads--;
    service_free(i);
  }
}

}  // namespace tanada::pgas
