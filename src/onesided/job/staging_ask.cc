// Our own requests: what contexts start, and what becomes of it.
#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::pgas {
namespace {

using staging::record;
using staging::record_kind;

constexpr size_t batch_max = 4;  // slots that the device fills before the first of them is sent

}  // namespace

staged_context::staged_context(stager &owner)
    : stager_{owner}, fences_told_(owner.inside().peer_count()) {}
staged_context::~staged_context() {
  TND_ASSERT(!under_way_.is_any());
}

// A failure of earlier operations that nobody has been told yet.
status staged_context::tell() noexcept {
  if (failure_.load(std::memory_order_relaxed) == 0) [[likely]]
    return status::ok;
  return status(failure_.exchange(0));
}

status staged_context::put(pe_index pe, place to, const void *source, size_t size) {
  return put_by(pe, to, source, size, true);
}
status staged_context::put_nbi(pe_index pe, place to, const void *source, size_t size) {
  return put_by(pe, to, source, size, false);
}

bool staged_context::may_keep(const void *source, size_t size) const noexcept {
  return stager_.inside().keeps(static_cast<const std::byte *>(source), size);
}

status staged_context::put_by(pe_index pe, place to, const void *source, size_t size, bool waits) {
  TND_TRY(tell());
  auto &inside = stager_.inside();
  stager::state::waiter what;
  auto lock = inside.enter();
  status const code = inside.put(lock, *this, pe, to.offset, static_cast<const std::byte *>(source),
                                 size, waits ? &what : nullptr);
  if (what.left != 0)
    inside.wait(lock, what);
  inside.leave(lock, false);
  return code == status::ok ? what.code : code;
}

status staged_context::get(pe_index pe, void *target, place from, size_t size) {
  TND_TRY(tell());
  auto &inside = stager_.inside();
  stager::state::waiter what;
  auto lock = inside.enter();
  status const code =
      inside.get(lock, *this, pe, static_cast<std::byte *>(target), from.offset, size, &what);
  inside.wait(lock, what);
  inside.leave(lock);
  return code == status::ok ? what.code : code;
}

status staged_context::get_nbi(pe_index pe, void *target, place from, size_t size) {
  TND_TRY(tell());
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  status const code =
      inside.get(lock, *this, pe, static_cast<std::byte *>(target), from.offset, size, nullptr);
  inside.leave(lock, false);
  return code;
}

status staged_context::update(pe_index pe, place to, const atomic &what, void *result) {
  return run(pe, to, what, result, result != nullptr);
}
status staged_context::update_nbi(pe_index pe, place to, const atomic &what, void *result) {
  return run(pe, to, what, result, false);
}

status staged_context::run(pe_index pe, place to, const atomic &what, void *result, bool waits) {
  TND_TRY(tell());
  auto &inside = stager_.inside();
  record asks{.kind = record_kind::update,
              .atomic = uint8_t(what.kind),
              .element = uint8_t(what.element),
              .offset = to.offset,
              .first = what.operand,
              .second = what.compare};
  asks.size = what.element == port::fabric_element::u32 ? 4 : 8;
  if (result != nullptr)
    asks.flags = staging::flag_wants_value;
  stager::state::waiter waiter;
  stager::state::aim const aim{
      .waits = waits ? &waiter : nullptr,
      .target = static_cast<std::byte *>(result),
      .is_to_device = result != nullptr && inside.options_.is_device_memory(result)};
  auto lock = inside.enter();
  status const code = inside.update(lock, *this, pe, asks, aim);
  if (code == status::ok && waits)
    inside.wait(lock, waiter);
  inside.leave(lock, waits);
  return code == status::ok ? waiter.code : code;
}

status staged_context::put_signal(pe_index pe, place to, const void *source, size_t size,
                                  const signal &then) {
  return put_signal_by(pe, to, source, size, then, true);
}
status staged_context::put_signal_nbi(pe_index pe, place to, const void *source, size_t size,
                                      const signal &then) {
  return put_signal_by(pe, to, source, size, then, false);
}

// The signal is a fenced request: it follows what its stream holds.
status staged_context::put_signal_by(pe_index pe, place to, const void *source, size_t size,
                                     const signal &then, bool waits) {
  TND_TRY(tell());
  auto &inside = stager_.inside();
  record const asks{.kind = record_kind::update,
                    .flags = staging::flag_fenced,
                    .atomic = uint8_t(then.kind == signal_kind::set ? port::fabric_atomic::swap
                                                                    : port::fabric_atomic::add),
                    .element = uint8_t(port::fabric_element::u64),
                    .offset = then.at.offset,
                    .size = 8,
                    .first = then.value};
  stager::state::waiter what;
  auto *const waiter = waits ? &what : nullptr;
  auto lock = inside.enter();
  status code = size == 0 ? status::ok
                          : inside.put(lock, *this, pe, to.offset,
                                       static_cast<const std::byte *>(source), size, waiter);
  if (code == status::ok)
    code = inside.update(lock, *this, pe, asks, {});
  if (what.left != 0)
    inside.wait(lock, what);
  inside.leave(lock);
  return code == status::ok ? what.code : code;
}

status staged_context::quiet() {
  if (under_way_.is_any()) {
    auto &inside = stager_.inside();
    auto lock = inside.enter();
    inside.drain(lock, *this);
    inside.leave(lock);
  }
  return tell();
}

status stager::state::put(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
                          const std::byte *source, size_t size, waiter *waits) {
  if (size > inline_size_max()) {
    if (keeps(source, size))
      return put_direct(lock, owner, pe, offset, source, size, waits);
    return put_staged(lock, owner, pe, offset, source, size);
  }
  bool const is_device = options_.is_device_memory(source);
  for (size_t done = 0; done < size;) {
    TND_TRY(room(lock, pe));
    size_t const piece = data_room(pe, size - done);
    if (is_device)
      TND_TRY(queue_get(source + done, piece));  // the frame may not be taken back
    std::byte *data = nullptr;
    ask(owner, pe,
        {.kind = record_kind::put,
         .data_size = uint32_t(piece),
         .offset = offset + done,
         .size = piece},
        {}, &data);
    std::memcpy(data, is_device ? scratch_.data() : source + done, piece);
    done += piece;
  }
  return status::ok;
}

// How much of it comes with the next record: what fits into one stays together, else the frame is
// filled.
size_t stager::state::data_room(pe_index pe, size_t size) const noexcept {
  if (size <= data_size_max_)
    return size;
  auto const &outgoing = peers_[size_t(pe)].outgoing;
  size_t const left = outgoing.empty() ? 0 : frame_size_ - outgoing.back()->size;
  if (left < frame_size_ / 4)
    return data_size_max_;
  return std::min(data_size_max_,
                  (left - sizeof(record)) / staging::record_alignment * staging::record_alignment);
}

// Read from where it lies.
status stager::state::put_direct(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
                                 const std::byte *source, size_t size, waiter *waits) {
  size_t const most = peers_[size_t(pe)].heap.size != 0 ? direct_size_max : options_.slot_size;
  uint64_t const first = uint64_t(source - options_.heap.data());
  for (size_t done = 0, piece = 0; done < size; done += piece) {
    piece = std::min(size - done, most);
    TND_TRY(room(lock, pe));
    ask(owner, pe,
        {.kind = record_kind::put_direct,
         .offset = offset + done,
         .size = piece,
         .first = first + done},
        {.waits = waits}, nullptr);
    if (done + piece < size)
      (void)progress();
  }
  return status::ok;
}

status stager::state::put_staged(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
                                 const std::byte *source, size_t size) {
  bool const is_device = options_.is_device_memory(source);
  for (size_t done = 0; done < size;) {
    struct piece {
      uint32_t slot;
      size_t offset, size;
    };
    std::array<piece, batch_max> pieces;
    size_t count = 0;
    status code = status::ok;
    for (; code == status::ok && done < size && count < (is_device ? batch_max : 1); count++) {
      auto slot = count != 0 && !has_slot(pe) ? result<uint32_t>{none} : slot_take(lock, pe);
      if (!slot.ok())
        code = slot.error();
      if (!slot.ok() || slot.value() == none)
        break;
      if (is_device && queue_code_ != status::ok) {
        slot_free(pe, slot.value());
        code = queue_code_;
        break;
      }
      pieces[count] = {slot.value(), done, std::min(size - done, options_.slot_size)};
      if (is_device)
        code = queue_said(queue_->copy(slot_at(slot.value()), source + done, pieces[count].size));
      else
        std::memcpy(slot_at(slot.value()), source + done, pieces[count].size);
      done += pieces[count].size;
    }
    status const copied = is_device && count != 0 ? queue_wait_serving() : status::ok;
    if (code == status::ok)
      code = copied;
    for (size_t i = 0; i < count; i++) {
      if (code == status::ok)
        code = room(lock, pe);
      if (code != status::ok) {
        if (copied == status::ok)
          slot_free(pe, pieces[i].slot);
        else
          slot_let_go(pe, pieces[i].slot);
        continue;
      }
      ask(owner, pe,
          {.kind = record_kind::put_staged,
           .offset = offset + pieces[i].offset,
           .size = pieces[i].size,
           .first = pieces[i].slot * options_.slot_size},
          {.slot = pieces[i].slot}, nullptr);
    }
    if (code != status::ok)
      return code;
    (void)progress(done < size);
  }
  return status::ok;
}

status stager::state::get(held &lock, staged_context &owner, pe_index pe, std::byte *target,
                          uint64_t offset, size_t size, waiter *waits) {
  bool const is_device = options_.is_device_memory(target);
  bool const is_staged = size > inline_size_max();
  bool const is_to_heap = is_staged && is_direct() && is_in_heap(target, size);
  bool const needs_slot = is_staged && is_device && !is_to_heap;
  bool const reads = is_staged && peers_[size_t(pe)].heap.size != 0;
  size_t const most = !is_staged             ? inline_size_max()
                      : reads && !needs_slot ? direct_size_max
                                             : options_.slot_size;
  for (size_t done = 0; done < size;) {
    if (is_device && queue_code_ != status::ok)
      return queue_code_;
    size_t const piece = std::min(size - done, most);
    uint32_t slot = none;
    if (needs_slot) {
      auto taken = slot_take(lock, pe);
      if (!taken.ok())
        return taken.error();
      slot = taken.value();
    }
    if (status const code = room(lock, pe); code != status::ok) {
      if (slot != none)
        slot_free(pe, slot);
      return code;
    }
    record const what{.kind = is_staged ? record_kind::get_staged : record_kind::get,
                      .offset = offset + done,
                      .size = piece};
    aim const to{.waits = waits,
                 .target = target + done,
                 .is_to_device = is_device,
                 .is_to_heap = is_to_heap,
                 .slot = slot};
    if (reads)
      read(owner, pe, what, to);
    else
      ask(owner, pe, what, to, nullptr);
    done += piece;
    if (is_staged && done < size)
      (void)progress();
  }
  return status::ok;
}

status stager::state::update(held &lock, staged_context &owner, pe_index pe, const record &what,
                             const aim &to) {
  TND_TRY(room(lock, pe));
  ask(owner, pe, what, to, nullptr);
  return status::ok;
}

// There is room for it.
uint32_t stager::state::request_take(staged_context &owner, pe_index pe, const record &what,
                                     const aim &to) {
  uint32_t const index = first_free_;
  auto &of = requests_[index];
  first_free_ = of.next_free;
  request_count_++;
  uint32_t const generation = of.generation + 1;
  of = {.owner = &owner,
        .to = to,
        .pe = pe,
        .kind = what.kind,
        .epoch = owner.under_way_.begin(),
        .is_used = true};
  of.size = uint32_t(what.size);
  of.generation = generation;
  of.deadline_ns = deadline_ns();
  of.number = ++requests_made_;
  if (to.waits != nullptr)
    to.waits->left++;
  peers_[size_t(pe)].outstanding++;
  return index;
}

// From the peer's heap, which nobody over there need be asked for.
void stager::state::read(staged_context &owner, pe_index pe, const record &what, const aim &to) {
  uint32_t const index = request_take(owner, pe, what, to);
  auto &of = requests_[index];
  of.is_direct = true;
  of.remote_offset = what.offset;
  reads_due_.push_back(op_id(op_use::land, index));
}

// There is room for it. `data`: where what comes with it goes.
void stager::state::ask(staged_context &owner, pe_index pe, record what, const aim &to,
                        std::byte **data) {
  uint32_t const index = request_take(owner, pe, what, to);
  bool const is_ordered = what.kind != record_kind::get && what.kind != record_kind::get_staged;
  uint32_t const fences = owner.fences_.load(std::memory_order_relaxed);
  if (is_ordered && owner.fences_told_[size_t(pe)] != fences) {
    what.flags |= staging::flag_fenced;
    owner.fences_told_[size_t(pe)] = fences;
  }
  what.id = uint64_t(requests_[index].generation) << 32 | index;
  std::byte *const at = say(pe, what);
  if (data != nullptr)
    *data = at;
}

stager::state::request *stager::state::find(uint64_t id, pe_index pe) {
  auto const index = uint32_t(id);
  if (index >= request_count_max)
    return nullptr;
  auto &of = requests_[index];
  bool const is_it = of.is_used && of.pe == pe && of.generation == uint32_t(id >> 32);
  bool const waits = !of.is_reading && !of.is_landing && of.remote_offset == none_yet;
  return is_it && waits ? &of : nullptr;
}

void stager::state::answered(const record &what, std::span<const std::byte> data, pe_index pe) {
  auto *const of = find(what.id, pe);
  if (of == nullptr)
    return;
  auto const index = uint32_t(of - requests_.data());
  status const code = staging::status_decode(what.first);
  if (code != status::ok)
    return finish(index, code);
  if (of->kind == record_kind::get || of->kind == record_kind::fetch)
    return part_came(*of, data, what.offset);
  if (of->kind == record_kind::get_staged || of->kind == record_kind::fetch_staged)
    return finish(index, status::protocol);
  if (of->to.target == nullptr || of->owner == nullptr)
    return finish(index, code);
  auto const value = std::as_bytes(std::span{&what.second, 1}).first(of->size);
  if (!of->to.is_to_device) {
    std::memcpy(of->to.target, value.data(), value.size());
    return finish(index, code);
  }
  of->is_landing = true;
  status const put = queue_put(of->to.target, value);
  deeds_.push_back({.is = deed::what::landed, .pe = pe, .index = index, .code = put});
}

// They come in order.
void stager::state::part_came(request &of, std::span<const std::byte> data, uint64_t offset) {
  auto const index = uint32_t(&of - requests_.data());
  if (data.empty() || offset != of.got || data.size() > of.size - of.got)
    return finish(index, status::protocol);
  std::byte *const target = of.to.target + of.got;
  uint64_t const at = of.to.first + of.got;
  of.got += uint32_t(data.size());
  bool const is_all = of.got == of.size;
  if (of.to.landing != nullptr) {
    if (of.owner != nullptr)
      of.to.landing->land(at, data);
    if (is_all)
      finish(index, status::ok);
    return;
  }
  if (of.owner == nullptr || !of.to.is_to_device) {
    if (of.owner != nullptr)
      std::memcpy(target, data.data(), data.size());
    if (is_all)
      finish(index, status::ok);
    return;
  }
  of.is_landing = is_all;
  deeds_.push_back({.is = is_all ? deed::what::landed : deed::what::nothing,
                    .pe = of.pe,
                    .index = index,
                    .code = queue_put(target, data)});
}

// What was asked for lies in the peer's area.
void stager::state::offered(const record &what, pe_index pe) {
  auto *const of = find(what.id, pe);
  if (of == nullptr)
    return;
  auto const index = uint32_t(of - requests_.data());
  bool const is_asked =
      of->kind == record_kind::get_staged || of->kind == record_kind::fetch_staged;
  bool const is_right =
      is_asked && staging::ready_check(what, of->size, limits_of(pe)) == status::ok;
  if (!is_right)
    return finish(index, status::protocol);
  of->remote_offset = what.first;
  of->served_id = what.second;
  reads_due_.push_back(op_id(op_use::land, index));
}

void stager::state::landed(uint32_t index, status code) {
  auto &of = requests_[index];
  of.is_reading = false;
  if (!of.is_direct && !peers_[size_t(of.pe)].is_lost)
    (void)say(of.pe, {.kind = record_kind::done, .id = of.served_id});
  // Past the deadline its slot over there may have served another.
  if (code == status::ok && options_.time->now_ns() >= of.deadline_ns)
    code = status::timed_out;
  if (of.to.landing != nullptr) {
    if (code == status::ok && of.owner != nullptr)
      of.to.landing->land(of.to.first, {slot_at(of.to.slot), of.size});
    return finish(index, code);
  }
  if (code == status::ok && of.to.slot != none)
    code = queue_code_;
  if (code == status::ok && of.to.is_to_heap)
    code = heap_written();
  if (code != status::ok || of.to.slot == none || of.owner == nullptr)
    return finish(index, code);
  of.is_landing = true;
  status const copied = queue_said(queue_->copy(of.to.target, slot_at(of.to.slot), of.size));
  deeds_.push_back({.is = deed::what::landed, .pe = of.pe, .index = index, .code = copied});
}

void stager::state::tell_owner(request &of, status code) {
  auto *const owner = std::exchange(of.owner, nullptr);
  if (owner == nullptr)
    return;
  if (of.to.waits != nullptr) {
    if (of.to.waits->code == status::ok)
      of.to.waits->code = code;
    of.to.waits->left--;
  } else if (code != status::ok) {
    int32_t nothing = 0;
    owner->failure_.compare_exchange_strong(nothing, int32_t(code));
    failed_.store(of.pe, std::memory_order_relaxed);
  }
  owner->under_way_.end(of.epoch);
}

void stager::state::finish(uint32_t index, status code) {
  auto &of = requests_[index];
  tell_owner(of, code);
  if (of.to.slot != none) {
    if (of.is_landing)
      slot_let_go(of.pe, of.to.slot);
    else
      slot_free(of.pe, of.to.slot);
  }
  auto &there = peers_[size_t(of.pe)];
  there.outstanding--;
  if (of.is_direct || of.kind == record_kind::put_direct)
    there.passed = std::min(there.passed, of.number);
  of.is_used = false;
  of.is_landing = false;
  of.next_free = first_free_;
  first_free_ = index;
  request_count_--;
}

void stager::state::lose_requests(pe_index pe, status code) {
  for (uint32_t i = 0; i < request_count_max; i++) {
    auto const &of = requests_[i];
    if (of.is_used && of.pe == pe && !of.is_reading && !of.is_landing)
      finish(i, code);
  }
}

// One peer that does not answer leaves others something.
bool stager::state::has_slot(pe_index pe) const noexcept {
  uint32_t const most = peers_.size() > 2 ? (slot_count_ + 1) / 2 : slot_count_;
  return !slots_free_.empty() && peers_[size_t(pe)].slots < most;
}

result<uint32_t> stager::state::slot_take(held &lock, pe_index pe) {
  uint64_t const until_ns = deadline_ns();
  for (pacing pace; !has_slot(pe); step(lock, pace)) {
    if (peers_[size_t(pe)].is_lost)
      return status::peer_lost;
    if (is_useless() && withheld_slots_.size() == slot_count_)
      return queue_code_;
    if (turns_.is_late(pace, until_ns))
      return status::timed_out;
  }
  uint32_t const slot = slots_free_.back();
  slots_free_.pop_back();
  peers_[size_t(pe)].slots++;
  return slot;
}

void stager::state::slot_free(pe_index pe, uint32_t slot) {
  slots_free_.push_back(slot);
  peers_[size_t(pe)].slots--;
}

// For one more request.
status stager::state::room(held &lock, pe_index pe) {
  auto const &target = peers_[size_t(pe)];
  static_assert(window <= request_count_max / 2);  // so much a peer that does not answer may hold
  uint64_t const until_ns = deadline_ns();
  for (pacing pace; target.outstanding >= window || first_free_ == none; step(lock, pace)) {
    if (target.is_lost)
      return status::peer_lost;
    if (turns_.is_late(pace, until_ns))
      return status::timed_out;
  }
  return target.is_lost ? status::peer_lost : status::ok;
}

}  // namespace tanada::pgas
