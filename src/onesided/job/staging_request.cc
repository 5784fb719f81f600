// A stager's own requests: how contexts start them, and how they complete.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::onesided {
namespace {

using staging::record;
using staging::record_kind;

}  // namespace

staged_context::staged_context(stager &owner)
    : stager_{owner}, fences_sent_(owner.impl().peer_count()) {}
staged_context::~staged_context() {
  TND_ASSERT(!epochs_.has_outstanding());
}

// Returns, once, a failure of earlier operations.
status staged_context::take_failure() noexcept {
  if (failure_.load(std::memory_order_relaxed) == 0) [[likely]]
    return status::ok;
  return status(failure_.exchange(0));
}

status staged_context::put(pe_index pe, symmetric_address target, const void *source, size_t size) {
  return put_by(pe, target, source, size, true);
}
status staged_context::put_nbi(pe_index pe,
                               symmetric_address target,
                               const void *source,
                               size_t size) {
  return put_by(pe, target, source, size, false);
}

bool staged_context::may_read_in_place(const void *source, size_t size) const noexcept {
  return stager_.impl().reads_in_place(static_cast<const std::byte *>(source), size);
}

status staged_context::put_by(
    pe_index pe, symmetric_address target, const void *source, size_t size, bool is_blocking) {
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  stager::state::blocking_wait waiter;
  auto lock = impl.enter();
  status const code = impl.put(lock,
                               *this,
                               pe,
                               target.offset,
                               static_cast<const std::byte *>(source),
                               size,
                               is_blocking ? &waiter : nullptr);
  if (waiter.remaining != 0)
    impl.wait(lock, waiter);
  impl.leave(lock, false);
  return code == status::ok ? waiter.code : code;
}

status staged_context::get(pe_index pe, void *target, symmetric_address source, size_t size) {
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  stager::state::blocking_wait waiter;
  auto lock = impl.enter();
  status const code =
      impl.get(lock, *this, pe, static_cast<std::byte *>(target), source.offset, size, &waiter);
  impl.wait(lock, waiter);
  impl.leave(lock);
  return code == status::ok ? waiter.code : code;
}

status staged_context::get_nbi(pe_index pe, void *target, symmetric_address source, size_t size) {
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  auto lock = impl.enter();
  status const code =
      impl.get(lock, *this, pe, static_cast<std::byte *>(target), source.offset, size, nullptr);
  impl.leave(lock, false);
  return code;
}

status staged_context::update(pe_index pe,
                              symmetric_address target,
                              const atomic &operation,
                              void *result) {
  return post_update(pe, target, operation, result, result != nullptr);
}
status staged_context::update_nbi(pe_index pe,
                                  symmetric_address target,
                                  const atomic &operation,
                                  void *result) {
  return post_update(pe, target, operation, result, false);
}

status staged_context::post_update(pe_index pe,
                                   symmetric_address target,
                                   const atomic &operation,
                                   void *result,
                                   bool is_blocking) {
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  record request_record{.kind = record_kind::update,
                        .atomic = uint8_t(operation.kind),
                        .element = uint8_t(operation.element),
                        .offset = target.offset,
                        .first = operation.operand,
                        .second = operation.compare};
  request_record.size = operation.element == seams::fabric_element::u32 ? 4 : 8;
  if (result != nullptr)
    request_record.flags = staging::flag_returns_value;
  stager::state::blocking_wait waiter;
  stager::state::reply_target const reply_to{
      .waiter = is_blocking ? &waiter : nullptr,
      .target = static_cast<std::byte *>(result),
      .is_to_device = result != nullptr && impl.options_.is_device_memory(result)};
  auto lock = impl.enter();
  status const code = impl.update(lock, *this, pe, request_record, reply_to);
  if (code == status::ok && is_blocking)
    impl.wait(lock, waiter);
  impl.leave(lock, is_blocking);
  return code == status::ok ? waiter.code : code;
}

status staged_context::put_signal(pe_index pe,
                                  symmetric_address target,
                                  const void *source,
                                  size_t size,
                                  const signal &signal_update) {
  return put_signal_by(pe, target, source, size, signal_update, true);
}
status staged_context::put_signal_nbi(pe_index pe,
                                      symmetric_address target,
                                      const void *source,
                                      size_t size,
                                      const signal &signal_update) {
  return put_signal_by(pe, target, source, size, signal_update, false);
}

// The signal is a fenced request: it follows everything before it in the stream.
status staged_context::put_signal_by(pe_index pe,
                                     symmetric_address target,
                                     const void *source,
                                     size_t size,
                                     const signal &signal_update,
                                     bool is_blocking) {
  TND_TRY(take_failure());
  auto &impl = stager_.impl();
  record const request_record{
      .kind = record_kind::update,
      .flags = staging::flag_fenced,
      .atomic = uint8_t(signal_update.kind == signal_kind::set ? seams::fabric_atomic::swap
                                                               : seams::fabric_atomic::add),
      .element = uint8_t(seams::fabric_element::u64),
      .offset = signal_update.location.offset,
      .size = 8,
      .first = signal_update.value};
  stager::state::blocking_wait data_wait;
  auto *const waiter = is_blocking ? &data_wait : nullptr;
  auto lock = impl.enter();
  status code = size == 0 ? status::ok
                          : impl.put(lock,
                                     *this,
                                     pe,
                                     target.offset,
                                     static_cast<const std::byte *>(source),
                                     size,
                                     waiter);
  if (code == status::ok)
    code = impl.update(lock, *this, pe, request_record, {});
  if (data_wait.remaining != 0)
    impl.wait(lock, data_wait);
  impl.leave(lock);
  return code == status::ok ? data_wait.code : code;
}

status staged_context::quiet() {
  if (epochs_.has_outstanding()) {
    auto &impl = stager_.impl();
    auto lock = impl.enter();
    impl.drain(lock, *this);
    impl.leave(lock);
  }
  return take_failure();
}

status stager::state::put(guard &lock,
                          staged_context &owner,
                          pe_index pe,
                          uint64_t offset,
                          const std::byte *source,
                          size_t size,
                          blocking_wait *waiter) {
  if (size > inline_size_max()) {
    if (reads_in_place(source, size))
      return put_direct(lock, owner, pe, offset, source, size, waiter);
    return put_staged(lock, owner, pe, offset, source, size);
  }
  bool const is_device = options_.is_device_memory(source);
  for (size_t done = 0; done < size;) {
    TND_TRY(wait_for_request(lock, pe));
    size_t const piece = next_piece_size(pe, size - done);
    if (is_device)
      TND_TRY(queue_get(source + done, piece));  // before the record, which cannot be withdrawn
    std::byte *data = nullptr;
    send_request(owner,
                 pe,
                 {.kind = record_kind::put,
                  .data_size = uint32_t(piece),
                  .offset = offset + done,
                  .size = piece},
                 {},
                 &data);
    std::memcpy(data, is_device ? scratch_.data() : source + done, piece);
    done += piece;
  }
  return status::ok;
}

// How many bytes the next record carries. Data that fit into one record stay together; otherwise
// the frame is filled.
size_t stager::state::next_piece_size(pe_index pe, size_t size) const noexcept {
  if (size <= data_size_max_)
    return size;
  auto const &outgoing = peers_[size_t(pe)].outgoing;
  size_t const free_size = outgoing.empty() ? 0 : frame_size_ - outgoing.back()->size;
  if (free_size < frame_size_ / 4)
    return data_size_max_;
  return std::min(
      data_size_max_,
      (free_size - sizeof(record)) / staging::record_alignment * staging::record_alignment);
}

// The peer reads the source in place.
status stager::state::put_direct(guard &lock,
                                 staged_context &owner,
                                 pe_index pe,
                                 uint64_t offset,
                                 const std::byte *source,
                                 size_t size,
                                 blocking_wait *waiter) {
  size_t const piece_size_max =
      peers_[size_t(pe)].heap.size != 0 ? direct_size_max : options_.slot_size;
  uint64_t const first = uint64_t(source - options_.heap.data());
  for (size_t done = 0, piece = 0; done < size; done += piece) {
    piece = std::min(size - done, piece_size_max);
    TND_TRY(wait_for_request(lock, pe));
    send_request(owner,
                 pe,
                 {.kind = record_kind::put_direct,
                  .offset = offset + done,
                  .size = piece,
                  .first = first + done},
                 {.waiter = waiter},
                 nullptr);
    if (done + piece < size)
      (void)progress();
  }
  return status::ok;
}

status stager::state::put_staged(guard &lock,
                                 staged_context &owner,
                                 pe_index pe,
                                 uint64_t offset,
                                 const std::byte *source,
                                 size_t size) {
  staged_source const data{source, size, options_.is_device_memory(source)};
  for (size_t done = 0; done < size;) {
    staged_batch batch{.end = done};
    batch.code = fill_batch(lock, pe, data, batch);
    if (data.is_device && batch.count != 0)
      batch.copied = queue_wait_serving();
    if (batch.code == status::ok)
      batch.code = batch.copied;
    TND_TRY(send_batch(lock, owner, pe, offset, batch));
    TND_ASSERT(batch.end > done);
    done = batch.end;
    (void)progress(done < size);
  }
  return status::ok;
}

// Copies the next bytes to slots: to one, or to several by the device. After a failure the batch
// keeps what it has.
status stager::state::fill_batch(guard &lock,
                                 pe_index pe,
                                 const staged_source &source,
                                 staged_batch &batch) {
  size_t const count_max = source.is_device ? batch.pieces.size() : 1;
  while (batch.end < source.size && batch.count < count_max) {
    if (batch.count != 0 && !has_slot(pe))
      return status::ok;
    auto acquired = slot_take(lock, pe);
    if (!acquired.ok())
      return acquired.error();
    uint32_t const slot = acquired.value();
    if (source.is_device && queue_status_ != status::ok) {
      slot_free(pe, slot);
      return queue_status_;
    }
    size_t const size = std::min(source.size - batch.end, options_.slot_size);
    auto const *const piece = source.addr + batch.end;
    batch.pieces[batch.count++] = {slot, batch.end, size};
    batch.end += size;
    if (source.is_device)
      TND_TRY(record_queue_status(queue_->copy(slot_at(slot), piece, size)));
    else
      std::memcpy(slot_at(slot), piece, size);
  }
  return status::ok;
}

// Requests the peer to read the pieces. Slots of those that it does not request are given back.
status stager::state::send_batch(
    guard &lock, staged_context &owner, pe_index pe, uint64_t offset, const staged_batch &batch) {
  status code = batch.code;
  for (auto const &piece : std::span{batch.pieces}.first(batch.count)) {
    if (code == status::ok)
      code = wait_for_request(lock, pe);
    if (code == status::ok) {
      send_request(owner,
                   pe,
                   {.kind = record_kind::put_staged,
                    .offset = offset + piece.offset,
                    .size = piece.size,
                    .first = piece.slot * options_.slot_size},
                   {.slot = piece.slot},
                   nullptr);
    } else if (batch.copied == status::ok) {
      slot_free(pe, piece.slot);
    } else {
      slot_retire(pe, piece.slot);
    }
  }
  return code;
}

stager::state::get_plan stager::state::plan_get(pe_index pe,
                                                const std::byte *target,
                                                size_t size) const {
  get_plan plan{.is_to_device = options_.is_device_memory(target),
                .is_staged = size > inline_size_max()};
  plan.is_to_heap = plan.is_staged && is_direct() && is_in_heap(target, size);
  plan.needs_slot = plan.is_staged && plan.is_to_device && !plan.is_to_heap;
  plan.is_read = plan.is_staged && peers_[size_t(pe)].heap.size != 0;
  if (!plan.is_staged)
    plan.piece_size_max = inline_size_max();
  else
    plan.piece_size_max = plan.is_read && !plan.needs_slot ? direct_size_max : options_.slot_size;
  return plan;
}

status stager::state::get(guard &lock,
                          staged_context &owner,
                          pe_index pe,
                          std::byte *target,
                          uint64_t offset,
                          size_t size,
                          blocking_wait *waiter) {
  get_plan const plan = plan_get(pe, target, size);
  TND_ASSERT(plan.piece_size_max != 0);
  for (size_t done = 0; done < size;) {
    size_t const piece = std::min(size - done, plan.piece_size_max);
    record const request_record{.kind = plan.is_staged ? record_kind::get_staged : record_kind::get,
                                .offset = offset + done,
                                .size = piece};
    TND_TRY(get_piece(lock,
                      owner,
                      pe,
                      plan,
                      request_record,
                      {.waiter = waiter,
                       .target = target + done,
                       .is_to_device = plan.is_to_device,
                       .is_to_heap = plan.is_to_heap}));
    done += piece;
    if (plan.is_staged && done < size)
      (void)progress();
  }
  return status::ok;
}

status stager::state::get_piece(guard &lock,
                                staged_context &owner,
                                pe_index pe,
                                const get_plan &plan,
                                const record &request_record,
                                reply_target reply_to) {
  if (plan.is_to_device && queue_status_ != status::ok)
    return queue_status_;
  if (plan.needs_slot) {
    auto acquired = slot_take(lock, pe);
    if (!acquired.ok())
      return acquired.error();
    reply_to.slot = acquired.value();
  }
  if (status const code = wait_for_request(lock, pe); code != status::ok) {
    if (plan.needs_slot)
      slot_free(pe, reply_to.slot);
    return code;
  }
  if (plan.is_read)
    start_read(owner, pe, request_record, reply_to);
  else
    send_request(owner, pe, request_record, reply_to, nullptr);
  return status::ok;
}

status stager::state::update(guard &lock,
                             staged_context &owner,
                             pe_index pe,
                             const record &record,
                             const reply_target &reply_to) {
  TND_TRY(wait_for_request(lock, pe));
  send_request(owner, pe, record, reply_to, nullptr);
  return status::ok;
}

uint32_t stager::state::request_take(staged_context &owner,
                                     pe_index pe,
                                     const record &record,
                                     const reply_target &reply_to) {
  uint32_t const index = first_free_;
  TND_ASSERT(index != no_index && !requests_[index].is_used);
  auto &entry = requests_[index];
  first_free_ = entry.next_free;
  request_count_++;
  uint32_t const generation = entry.generation + 1;
  entry = {.owner = &owner,
           .reply_to = reply_to,
           .pe = pe,
           .kind = record.kind,
           .epoch = owner.epochs_.start_operation(),
           .is_used = true};
  entry.size = uint32_t(record.size);
  entry.generation = generation;
  entry.deadline_ns = deadline_ns();
  entry.sequence = ++request_sequence_;
  if (reply_to.waiter != nullptr)
    reply_to.waiter->remaining++;
  peers_[size_t(pe)].outstanding_count++;
  return index;
}

// Reads from the peer's heap, which needs no request to the peer.
void stager::state::start_read(staged_context &owner,
                               pe_index pe,
                               const record &record,
                               const reply_target &reply_to) {
  uint32_t const index = request_take(owner, pe, record, reply_to);
  auto &entry = requests_[index];
  TND_ASSERT(peers_[size_t(pe)].heap.size != 0);
  entry.is_direct = true;
  entry.remote_offset = record.offset;
  reads_due_.push_back(op_id(op_use::request_read, index));
}

// `data` receives the address of the record's data.
void stager::state::send_request(staged_context &owner,
                                 pe_index pe,
                                 record record,
                                 const reply_target &reply_to,
                                 std::byte **data) {
  uint32_t const index = request_take(owner, pe, record, reply_to);
  bool const is_ordered = record.kind != record_kind::get && record.kind != record_kind::get_staged;
  uint32_t const fences = owner.fence_count_.load(std::memory_order_relaxed);
  if (is_ordered && owner.fences_sent_[size_t(pe)] != fences) {
    record.flags |= staging::flag_fenced;
    owner.fences_sent_[size_t(pe)] = fences;
  }
  record.id = uint64_t(requests_[index].generation) << 32 | index;
  std::byte *const position = append_record(pe, record);
  if (data != nullptr)
    *data = position;
}

stager::state::request *stager::state::find_request(uint64_t id, pe_index pe) {
  auto const index = uint32_t(id);
  if (index >= request_count_max)
    return nullptr;
  auto &entry = requests_[index];
  bool const is_match = entry.is_used && entry.pe == pe && entry.generation == uint32_t(id >> 32);
  bool const is_waiting =
      !entry.is_fabric_reading && !entry.is_device_copying && entry.remote_offset == unset;
  return is_match && is_waiting ? &entry : nullptr;
}

void stager::state::handle_reply(const record &record,
                                 std::span<const std::byte> data,
                                 pe_index pe) {
  auto *const entry = find_request(record.id, pe);
  if (entry == nullptr)
    return;
  auto const index = uint32_t(entry - requests_.data());
  status const code = staging::status_decode(record.first);
  if (code != status::ok)
    return finish_request(index, code);
  if (entry->kind == record_kind::get || entry->kind == record_kind::fetch)
    return receive_part(*entry, data, record.offset);
  if (entry->kind == record_kind::get_staged || entry->kind == record_kind::fetch_staged)
    return finish_request(index, status::protocol);
  if (entry->reply_to.target == nullptr || entry->owner == nullptr)
    return finish_request(index, code);
  auto const value = std::as_bytes(std::span{&record.second, 1}).first(entry->size);
  if (!entry->reply_to.is_to_device) {
    std::memcpy(entry->reply_to.target, value.data(), value.size());
    return finish_request(index, code);
  }
  entry->is_device_copying = true;
  status const put = queue_put(entry->reply_to.target, value);
  device_operations_.push_back({.action = device_operation::completion_action::copied_to_target,
                                .pe = pe,
                                .index = index,
                                .code = put});
}

// Parts arrive in order.
void stager::state::receive_part(request &entry, std::span<const std::byte> data, uint64_t offset) {
  auto const index = uint32_t(&entry - requests_.data());
  if (data.empty() || offset != entry.received_size ||
      data.size() > entry.size - entry.received_size)
    return finish_request(index, status::protocol);
  std::byte *const target = entry.reply_to.target + entry.received_size;
  uint64_t const position = entry.reply_to.sink_offset + entry.received_size;
  entry.received_size += uint32_t(data.size());
  bool const is_all = entry.received_size == entry.size;
  if (entry.reply_to.sink != nullptr) {
    if (entry.owner != nullptr)
      entry.reply_to.sink->write(position, data);
    if (is_all)
      finish_request(index, status::ok);
    return;
  }
  if (entry.owner == nullptr || !entry.reply_to.is_to_device) {
    if (entry.owner != nullptr)
      std::memcpy(target, data.data(), data.size());
    if (is_all)
      finish_request(index, status::ok);
    return;
  }
  entry.is_device_copying = is_all;
  device_operations_.push_back(
      {.action = is_all ? device_operation::completion_action::copied_to_target
                        : device_operation::completion_action::no_action,
       .pe = entry.pe,
       .index = index,
       .code = queue_put(target, data)});
}

// The requested data are in the peer's staging buffer.
void stager::state::handle_ready(const record &record, pe_index pe) {
  auto *const entry = find_request(record.id, pe);
  if (entry == nullptr)
    return;
  auto const index = uint32_t(entry - requests_.data());
  bool const is_expected =
      entry->kind == record_kind::get_staged || entry->kind == record_kind::fetch_staged;
  bool const is_valid =
      is_expected && staging::ready_check(record, entry->size, limits_for(pe)) == status::ok;
  if (!is_valid)
    return finish_request(index, status::protocol);
  entry->remote_offset = record.first;
  entry->service_id = record.second;
  reads_due_.push_back(op_id(op_use::request_read, index));
}

void stager::state::handle_read_done(uint32_t index, status code) {
  auto &entry = requests_[index];
  TND_ASSERT(entry.is_used && !entry.is_device_copying);
  entry.is_fabric_reading = false;
  if (!entry.is_direct && !peers_[size_t(entry.pe)].has_failed)
    (void)append_record(entry.pe, {.kind = record_kind::done, .id = entry.service_id});
  // Past the deadline the peer may have used its slot again.
  if (code == status::ok && options_.time->now_ns() >= entry.deadline_ns)
    code = status::timed_out;
  if (entry.reply_to.sink != nullptr)
    return finish_fetch(index, code);
  if (code == status::ok && entry.reply_to.slot != no_index)
    code = queue_status_;
  if (code == status::ok && entry.reply_to.is_to_heap)
    code = flush_heap_writes();
  if (code != status::ok || entry.reply_to.slot == no_index || entry.owner == nullptr)
    return finish_request(index, code);
  copy_to_target(index);
}

// Gives the data in the slot to the sink.
void stager::state::finish_fetch(uint32_t index, status code) {
  auto &entry = requests_[index];
  TND_ASSERT(entry.kind == record_kind::fetch_staged && entry.reply_to.slot < slot_count_);
  if (code == status::ok && entry.owner != nullptr)
    entry.reply_to.sink->write(entry.reply_to.sink_offset,
                               {slot_at(entry.reply_to.slot), entry.size});
  finish_request(index, code);
}

// The device moves the data from the slot to the caller's target.
void stager::state::copy_to_target(uint32_t index) {
  auto &entry = requests_[index];
  TND_ASSERT(queue_ != nullptr && !entry.is_device_copying);
  entry.is_device_copying = true;
  status const copied = record_queue_status(
      queue_->copy(entry.reply_to.target, slot_at(entry.reply_to.slot), entry.size));
  device_operations_.push_back({.action = device_operation::completion_action::copied_to_target,
                                .pe = entry.pe,
                                .index = index,
                                .code = copied});
}

void stager::state::report_to_owner(request &entry, status code) {
  auto *const owner = std::exchange(entry.owner, nullptr);
  if (owner == nullptr)
    return;
  if (entry.reply_to.waiter != nullptr) {
    if (entry.reply_to.waiter->code == status::ok)
      entry.reply_to.waiter->code = code;
    TND_ASSERT(entry.reply_to.waiter->remaining != 0);
    entry.reply_to.waiter->remaining--;
  } else if (code != status::ok) {
    int32_t no_failure = 0;
    owner->failure_.compare_exchange_strong(no_failure, int32_t(code));
    failed_pe_.store(entry.pe, std::memory_order_relaxed);
  }
  owner->epochs_.end_operation(entry.epoch);
}

void stager::state::finish_request(uint32_t index, status code) {
  auto &entry = requests_[index];
  TND_ASSERT(entry.is_used && request_count_ != 0);
  report_to_owner(entry, code);
  if (entry.reply_to.slot != no_index) {
    if (entry.is_device_copying)
      slot_retire(entry.pe, entry.reply_to.slot);
    else
      slot_free(entry.pe, entry.reply_to.slot);
  }
  auto &peer_entry = peers_[size_t(entry.pe)];
  TND_ASSERT(peer_entry.outstanding_count != 0);
  peer_entry.outstanding_count--;
  if (entry.is_direct || entry.kind == record_kind::put_direct)
    peer_entry.direct_ended_since_sweep =
        std::min(peer_entry.direct_ended_since_sweep, entry.sequence);
  entry.is_used = false;
  entry.is_device_copying = false;
  entry.next_free = first_free_;
  first_free_ = index;
  request_count_--;
}

void stager::state::fail_requests(pe_index pe, status code) {
  for (uint32_t i = 0; i < request_count_max; i++) {
    auto const &entry = requests_[i];
    if (entry.is_used && entry.pe == pe && !entry.is_fabric_reading && !entry.is_device_copying)
      finish_request(i, code);
  }
}

// A peer that does not answer leaves slots for others.
bool stager::state::has_slot(pe_index pe) const noexcept {
  uint32_t const slots_per_peer = peers_.size() > 2 ? (slot_count_ + 1) / 2 : slot_count_;
  return !slots_free_.empty() && peers_[size_t(pe)].slot_count < slots_per_peer;
}

result<uint32_t> stager::state::slot_take(guard &lock, pe_index pe) {
  uint64_t const until_ns = deadline_ns();
  for (backoff_state backoff; !has_slot(pe); step(lock, backoff)) {
    if (peers_[size_t(pe)].has_failed)
      return status::peer_lost;
    if (has_queue_failed() && quarantined_slots_.size() == slot_count_)
      return queue_status_;
    if (progress_lock_.is_past(backoff, until_ns))
      return status::timed_out;
  }
  TND_ASSERT(lock.owns_lock() && !slots_free_.empty());
  uint32_t const slot = slots_free_.back();
  slots_free_.pop_back();
  peers_[size_t(pe)].slot_count++;
  return slot;
}

void stager::state::slot_free(pe_index pe, uint32_t slot) {
  TND_ASSERT(slot < slot_count_ && peers_[size_t(pe)].slot_count != 0);
  slots_free_.push_back(slot);
  peers_[size_t(pe)].slot_count--;
}

// Waits until one more request may start.
status stager::state::wait_for_request(guard &lock, pe_index pe) {
  auto const &target = peers_[size_t(pe)];
  TND_ASSERT(lock.owns_lock());
  static_assert(window <= request_count_max / 2);  // a peer that does not answer may hold so many
  uint64_t const until_ns = deadline_ns();
  for (backoff_state backoff; target.outstanding_count >= window || first_free_ == no_index;
       step(lock, backoff)) {
    if (target.has_failed)
      return status::peer_lost;
    if (progress_lock_.is_past(backoff, until_ns))
      return status::timed_out;
  }
  return target.has_failed ? status::peer_lost : status::ok;
}

}  // namespace tanada::onesided
