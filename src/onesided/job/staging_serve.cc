// Requests of peers on this PE's device memory. For active messages see staging_active_message.cc.
#include <algorithm>

#include "onesided/job/staging_state.hpp"

namespace tanada::onesided {

using staging::record;
using staging::record_kind;

namespace {

// Requests whose data this PE has to read.
bool is_put(record_kind kind) {
  return kind == record_kind::put_staged || kind == record_kind::put_direct;
}

}  // namespace

// The request is untrusted. Positions outside the heap, or outside the sender's own staging buffer,
// are refused. A peer with more requests than `window` violates the protocol.
void stager::state::handle_request(const record &record,
                                   std::span<const std::byte> data,
                                   pe_index pe) {
  auto &client = peers_[size_t(pe)];
  if (client.pending_count >= window)
    return fail_peer(pe, status::protocol);
  client.pending_count++;
  if (status const code = staging::request_check(record, limits_for(pe)); code != status::ok)
    return reply(pe, record.id, code);
  if (client.waiting_requests.empty() && serve(pe, record, data))
    return;
  client.waiting_requests.push_back({record, {data.begin(), data.end()}});
  if (client.is_waiting)
    return;
  client.is_waiting = true;
  clients_.push_back(pe);
}

// Starts one request of each peer, in turn. False: none could be started.
bool stager::state::serve_waiting() {
  bool has_started = false;
  for (size_t remaining = clients_.size(); remaining > 0; remaining--) {
    pe_index const pe = clients_.front();
    clients_.pop_front();
    auto &client = peers_[size_t(pe)];
    status const previous_status = queue_status_;
    if (!client.waiting_requests.empty() &&
        serve(pe, client.waiting_requests.front().record, client.waiting_requests.front().data)) {
      has_started = true;
      if (queue_status_ != previous_status)
        quarantine(client.waiting_requests.front().data);
      client.waiting_requests.pop_front();
    }
    client.is_waiting = !client.waiting_requests.empty();
    if (client.is_waiting)
      clients_.push_back(pe);
  }
  return has_started;
}

// False: it cannot be started yet. All earlier requests of the stream have been started.
bool stager::state::serve(pe_index pe, const record &record, std::span<const std::byte> data) {
  auto &client = peers_[size_t(pe)];
  if ((record.flags & staging::flag_fenced) != 0) {
    if (client.unfinished_count != 0)
      return false;
    if (queue_ && queue_status_ == status::ok)
      static_cast<void>(record_queue_status(queue_->order()));
  }
  if (staging::is_active_message(record.kind))
    return serve_active_message(pe, record, data);
  if (queue_status_ != status::ok) {
    reply(pe, record.id, queue_status_);
    return true;
  }
  if (is_put(record.kind) || record.kind == record_kind::get_staged)
    return serve_staged(pe, record);
  if (record.kind == record_kind::update) {
    serve_update(pe, record);
    return true;
  }
  if (record.kind == record_kind::get) {
    serve_get(pe, record);
    return true;
  }
  device_operations_.push_back({.pe = pe,
                                .id = record.id,
                                .code = queue_put(options_.heap.data() + record.offset, data),
                                .offset = record.offset,
                                .size = record.size});
  return true;
}

void stager::state::serve_update(pe_index pe, const record &record) {
  auto const kind = seams::fabric_atomic(record.atomic);
  using enum seams::fabric_atomic;
  bool const returns_value =
      (record.flags & staging::flag_returns_value) != 0 || kind == fetch || kind == compare_swap;
  uint64_t before = 0;
  seams::word_update const update{
      kind, seams::fabric_element(record.element), record.first, record.second};
  auto *const word = options_.heap.data() + record.offset;
  status const code =
      record_queue_status(queue_->update(word, update, returns_value ? &before : nullptr));
  size_t const size = kind == seams::fabric_atomic::fetch                     ? 0
                      : record.element == uint8_t(seams::fabric_element::u32) ? 4
                                                                              : 8;
  if (!returns_value)
    return device_operations_.push_back(
        {.pe = pe, .id = record.id, .code = code, .offset = record.offset, .size = size});
  reply(pe, record.id, code, before);
  if (size != 0 && options_.on_heap_changed)
    options_.on_heap_changed(record.offset, size);
}

// Replies in as many parts as fill the frames.
void stager::state::serve_get(pe_index pe, const record &record) {
  for (size_t done = 0, part = 0; done < record.size; done += part) {
    part = next_piece_size(pe, record.size - done);
    status const code = queue_get(options_.heap.data() + record.offset + done, part);
    if (code != status::ok)
      return reply(pe, record.id, code);
    std::byte *const data = append_record(pe,
                                          {.kind = record_kind::reply,
                                           .data_size = uint32_t(part),
                                           .id = record.id,
                                           .offset = done,
                                           .size = record.size,
                                           .first = staging::status_encode(status::ok)});
    std::memcpy(data, scratch_.data(), part);
  }
  peers_[size_t(pe)].pending_count--;
}

// A slot for the request; no_index: it has to wait for one.
uint32_t stager::state::service_take(pe_index pe, const record &record) {
  auto &client = peers_[size_t(pe)];
  uint32_t const slots_per_peer = peers_.size() > 2 ? (slot_count_ + 1) / 2 : slot_count_;
  if (services_free_.empty() || client.service_count >= slots_per_peer)
    return no_index;
  uint32_t const index = services_free_.back();
  services_free_.pop_back();
  client.service_count++;
  auto &entry = services_[index];
  TND_ASSERT(entry.current_stage == service::stage::free);
  entry = {.current_stage = service::stage::reading,
           .pe = pe,
           .generation = entry.generation + 1,
           .size = uint32_t(record.size),
           .id = record.id,
           .offset = record.offset,
           .is_active_message = staging::is_active_message(record.kind)};
  if (is_put(record.kind) || record.kind == record_kind::active_message_staged) {
    entry.is_direct = record.kind == record_kind::put_direct;
    entry.is_to_heap = is_direct() && !entry.is_active_message;
    entry.remote_offset = record.first;
    client.unfinished_count++;
    reads_due_.push_back(op_id(op_use::service_read, index));
  }
  return index;
}

bool stager::state::serve_staged(pe_index pe, const record &record) {
  uint32_t const index = service_take(pe, record);
  if (index == no_index)
    return false;
  if (is_put(record.kind))
    return true;
  auto &entry = services_[index];
  entry.current_stage = service::stage::performed;
  device_operations_.push_back(
      {.action = device_operation::completion_action::announce,
       .pe = pe,
       .id = record.id,
       .index = index,
       .code = record_queue_status(queue_->copy(
           slot_at(slot_count_ + index), options_.heap.data() + record.offset, record.size))});
  return true;
}

// The data of a peer's put have arrived.
void stager::state::handle_put_data(uint32_t index, status code) {
  auto &entry = services_[index];
  auto &client = peers_[size_t(entry.pe)];
  TND_ASSERT(entry.current_stage == service::stage::reading && client.unfinished_count != 0);
  client.unfinished_count--;
  entry.is_posted = false;
  entry.current_stage = service::stage::performed;
  if (client.has_failed)
    return service_free(index);
  if (entry.is_active_message && code == status::ok)
    return handle_message_data(index);
  if (entry.is_to_heap) {
    if (code == status::ok)
      code = flush_heap_writes();
    service_free(index);
    reply(entry.pe, entry.id, code);
    if (options_.on_heap_changed)
      options_.on_heap_changed(entry.offset, entry.size);
    return;
  }
  if (code == status::ok)
    code = queue_status_;
  if (code != status::ok) {
    service_free(index);
    return reply(entry.pe, entry.id, code);
  }
  status const copied = record_queue_status(
      queue_->copy(options_.heap.data() + entry.offset, slot_at(slot_count_ + index), entry.size));
  device_operations_.push_back({.pe = entry.pe,
                                .id = entry.id,
                                .index = index,
                                .code = copied,
                                .offset = entry.offset,
                                .size = entry.size});
}

// The fabric has written to the heap.
status stager::state::flush_heap_writes() {
  return options_.flush_fabric_writes ? options_.flush_fabric_writes() : status::ok;
}

// The requested data are in the slot.
void stager::state::announce(uint32_t index) {
  auto &entry = services_[index];
  TND_ASSERT(entry.current_stage == service::stage::performed);
  entry.current_stage = service::stage::announced;
  entry.deadline_ns = deadline_ns();
  (void)append_record(entry.pe,
                      {.kind = record_kind::ready,
                       .id = entry.id,
                       .size = entry.size,
                       .first = (slot_count_ + index) * options_.slot_size,
                       .second = uint64_t(entry.generation) << 32 | index});
}

// Only the peer that it was announced to may release a slot.
void stager::state::handle_done(const record &record, pe_index pe) {
  auto const index = uint32_t(record.id);
  if (index >= slot_count_)
    return;
  auto const &entry = services_[index];
  if (entry.current_stage != service::stage::announced || entry.pe != pe ||
      entry.generation != uint32_t(record.id >> 32))
    return;
  TND_ASSERT(peers_[size_t(pe)].pending_count != 0);
  peers_[size_t(pe)].pending_count--;
  service_free(index);
}

void stager::state::service_free(uint32_t index) {
  auto &entry = services_[index];
  TND_ASSERT(entry.current_stage != service::stage::free);
  TND_ASSERT(peers_[size_t(entry.pe)].service_count != 0);
  entry.current_stage = service::stage::free;
  peers_[size_t(entry.pe)].service_count--;
  services_free_.push_back(index);
}

void stager::state::reply(pe_index pe, uint64_t id, status code, uint64_t value) {
  auto &client = peers_[size_t(pe)];
  if (client.has_failed)
    return;
  TND_ASSERT(client.pending_count != 0);
  client.pending_count--;
  (void)append_record(pe,
                      {.kind = record_kind::reply,
                       .id = id,
                       .first = staging::status_encode(code),
                       .second = value});
}

// Slots that the fabric or the queue uses are freed when those release them.
void stager::state::release_services(pe_index pe) {
  auto &client = peers_[size_t(pe)];
  client.waiting_requests.clear();
  for (uint32_t i = 0; i < slot_count_; i++) {
    auto &entry = services_[i];
    if (entry.pe != pe || entry.current_stage == service::stage::free ||
        entry.current_stage == service::stage::performed || entry.is_posted)
      continue;
    if (entry.current_stage == service::stage::reading)
      client.unfinished_count--;
    service_free(i);
  }
}

}  // namespace tanada::onesided
