// Active messages: sending them to peers, and serving those of peers.
#include <algorithm>

#include "onesided/job/staging_state.hpp"

namespace tanada::onesided {

namespace {

// Bytes: other requests wait while one is served.
constexpr size_t active_message_size_cap = size_t{128} << 10;

}  // namespace

using staging::record;
using staging::record_kind;

size_t staged_context::eager_size_max() const noexcept {
  return stager_.impl().eager_size_max();
}
size_t staged_context::active_message_size_max() const noexcept {
  return std::min(stager_.impl().options_.slot_size, active_message_size_cap);
}

status staged_context::active_message(pe_index pe,
                                      size_t size,
                                      const std::function<void(std::span<std::byte>)> &fill) {
  if (size == 0 || size > active_message_size_max())
    return status::invalid;
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  auto lock = impl.enter();
  status const code = impl.active_message(lock, *this, pe, size, fill);
  impl.leave(lock, false);
  return code;
}

status staged_context::fetch(pe_index pe,
                             std::span<const std::byte> request,
                             size_t size,
                             fetch_sink &sink,
                             uint64_t first) {
  if (request.empty() || request.size() > eager_size_max() || size == 0 ||
      size > active_message_size_max())
    return status::invalid;
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  auto lock = impl.enter();
  status const code =
      impl.fetch(lock, *this, pe, request, size, {.sink = &sink, .sink_offset = first});
  impl.leave(lock, false);
  return code;
}

status stager::state::active_message(
    guard &lock, staged_context &owner, pe_index pe, size_t size, const filler &fill) {
  if (size <= data_size_max_) {
    TND_TRY(wait_for_request(lock, pe));
    std::byte *data = nullptr;
    send_request(owner,
                 pe,
                 {.kind = record_kind::active_message, .data_size = uint32_t(size), .size = size},
                 {},
                 &data);
    fill({data, size});
    return status::ok;
  }
  auto acquired = slot_take(lock, pe);
  if (!acquired.ok())
    return acquired.error();
  uint32_t const slot = acquired.value();
  if (status const code = wait_for_request(lock, pe); code != status::ok) {
    slot_free(pe, slot);
    return code;
  }
  fill({slot_at(slot), size});
  send_request(owner,
               pe,
               {.kind = record_kind::active_message_staged,
                .size = size,
                .first = slot * options_.slot_size},
               {.slot = slot},
               nullptr);
  return status::ok;
}

status stager::state::fetch(guard &lock,
                            staged_context &owner,
                            pe_index pe,
                            std::span<const std::byte> body,
                            size_t size,
                            reply_target reply_to) {
  bool const is_staged = size > inline_size_max();
  if (is_staged) {
    auto acquired = slot_take(lock, pe);
    if (!acquired.ok())
      return acquired.error();
    reply_to.slot = acquired.value();
  }
  if (status const code = wait_for_request(lock, pe); code != status::ok) {
    if (is_staged)
      slot_free(pe, reply_to.slot);
    return code;
  }
  std::byte *data = nullptr;
  send_request(owner,
               pe,
               {.kind = is_staged ? record_kind::fetch_staged : record_kind::fetch,
                .data_size = uint32_t(body.size()),
                .size = size},
               reply_to,
               &data);
  std::memcpy(data, body.data(), body.size());
  return status::ok;
}

// False: it has to wait for a slot.
bool stager::state::serve_active_message(pe_index pe,
                                         const record &record,
                                         std::span<const std::byte> data) {
  TND_ASSERT(staging::is_active_message(record.kind));
  if (options_.message_server == nullptr) {
    reply(pe, record.id, status::not_supported);
    return true;
  }
  if (record.kind == record_kind::active_message) {
    serve_eager_message(pe, record, data);
    return true;
  }
  if (record.kind == record_kind::fetch) {
    serve_fetch(pe, record, data);
    return true;
  }
  uint32_t const index = service_take(pe, record);
  if (index == no_index)
    return false;
  if (record.kind == record_kind::fetch_staged)
    serve_staged_fetch(index, record, data);
  return true;
}

void stager::state::serve_eager_message(pe_index pe,
                                        const record &record,
                                        std::span<const std::byte> data) {
  status const code = options_.message_server->serve(pe, data, {});
  if (code != status::again)
    return reply(pe, record.id, code);
  defer(std::make_unique<deferred_call>(
      deferred_call{.pe = pe, .record = record, .request = {data.begin(), data.end()}}));
}

// The reply goes to the slot of the service.
void stager::state::serve_staged_fetch(uint32_t index,
                                       const record &record,
                                       std::span<const std::byte> data) {
  TND_ASSERT(index < slot_count_);
  auto &entry = services_[index];
  pe_index const pe = entry.pe;
  entry.current_stage = service::stage::performed;
  status const code =
      options_.message_server->serve(pe, data, {slot_at(slot_count_ + index), size_t(record.size)});
  if (code == status::ok)
    return announce(index);
  if (code == status::again) {
    auto deferred = deferred_call{
        .pe = pe, .record = record, .request = {data.begin(), data.end()}, .service = index};
    return defer(std::make_unique<deferred_call>(std::move(deferred)));
  }
  service_free(index);
  reply(pe, record.id, code);
}

// The data of a peer's active message have been read.
void stager::state::handle_message_data(uint32_t index) {
  auto &entry = services_[index];
  std::span const bytes{slot_at(slot_count_ + index), size_t(entry.size)};
  status const code = options_.message_server->serve(entry.pe, bytes, {});
  if (code == status::again) {
    record const request_record{
        .kind = record_kind::active_message_staged, .id = entry.id, .size = entry.size};
    return defer(std::make_unique<deferred_call>(
        deferred_call{.pe = entry.pe, .record = request_record, .service = index}));
  }
  service_free(index);
  reply(entry.pe, entry.id, code);
}

// Replies in as many parts as fill the frames. No part can be refused halfway: the data are
// complete before the first part is sent.
void stager::state::serve_fetch(pe_index pe,
                                const record &record,
                                std::span<const std::byte> body) {
  auto const size = size_t(record.size);
  if (scratch_.size() < size)
    scratch_.resize(size);
  status const code = options_.message_server->serve(pe, body, {scratch_.data(), size});
  if (code == status::ok)
    return send_fetch_data(pe, record, std::span{scratch_}.first(size));
  if (code != status::again)
    return reply(pe, record.id, code);
  auto deferred = deferred_call{.pe = pe,
                                .record = record,
                                .request = {body.begin(), body.end()},
                                .reply = std::vector<std::byte>(size)};
  defer(std::make_unique<deferred_call>(std::move(deferred)));
}

void stager::state::send_fetch_data(pe_index pe,
                                    const record &record,
                                    std::span<const std::byte> bytes) {
  for (size_t done = 0, part = 0; done < bytes.size(); done += part) {
    part = next_piece_size(pe, bytes.size() - done);
    std::byte *const position = append_record(pe,
                                              {.kind = record_kind::reply,
                                               .data_size = uint32_t(part),
                                               .id = record.id,
                                               .offset = done,
                                               .size = record.size,
                                               .first = staging::status_encode(status::ok)});
    std::memcpy(position, bytes.data() + done, part);
  }
  TND_ASSERT(peers_[size_t(pe)].pending_count != 0);
  peers_[size_t(pe)].pending_count--;
}

void stager::state::defer(std::unique_ptr<deferred_call> deferred) {
  TND_ASSERT(options_.message_server != nullptr && deferred->operation == nullptr);
  bool const is_staged = deferred->service != no_index;
  std::span<const std::byte> request_bytes{deferred->request};
  std::span<std::byte> reply_bytes{deferred->reply};
  if (is_staged) {
    std::span const slot{slot_at(slot_count_ + deferred->service), size_t(deferred->record.size)};
    if (deferred->record.kind == record_kind::active_message_staged)
      request_bytes = slot;
    else
      reply_bytes = slot;
  }
  peers_[size_t(deferred->pe)].unfinished_count++;
  deferred->operation = options_.message_server->begin(deferred->pe, request_bytes, reply_bytes);
  if (deferred->operation == nullptr)
    return finish_deferred(*deferred, status::no_memory);
  if (deferred_.empty())
    deferred_progress_ns_ = options_.time->now_ns();
  deferred_.push_back(std::move(deferred));
}

// True: some have finished.
bool stager::state::step_deferred() {
  if (deferred_.empty()) [[likely]]
    return false;
  options_.message_server->begin_round();
  size_t const previous_count = deferred_.size();
  std::erase_if(deferred_, [&](auto const &deferred) {
    status const code = deferred->operation->step();
    if (code != status::again)
      finish_deferred(*deferred, code);
    return code != status::again;
  });
  if (deferred_.size() == previous_count)
    return false;
  deferred_progress_ns_ = options_.time->now_ns();
  return true;
}

void stager::state::finish_deferred(deferred_call &deferred, status code) {
  auto &client = peers_[size_t(deferred.pe)];
  TND_ASSERT(client.unfinished_count != 0);
  client.unfinished_count--;
  bool const is_announced =
      !client.has_failed && deferred.record.kind == record_kind::fetch_staged && code == status::ok;
  if (is_announced)
    return announce(deferred.service);
  if (deferred.service != no_index)
    service_free(deferred.service);
  if (client.has_failed)
    return;
  if (deferred.record.kind == record_kind::fetch && code == status::ok)
    return send_fetch_data(deferred.pe, deferred.record, deferred.reply);
  reply(deferred.pe, deferred.record.id, code);
}

// Requests that take longer are polled less often.
uint64_t stager::state::deferred_poll_ns() const {
  TND_ASSERT(!deferred_.empty());
  constexpr uint64_t first_ns = 30'000, last_ns = 1'000'000;
  return std::clamp((options_.time->now_ns() - deferred_progress_ns_) / 8, first_ns, last_ns);
}

}  // namespace tanada::onesided
