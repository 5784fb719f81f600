// Operations with device memory on either side. The context's queue performs them where the device
// reaches both sides. They are staged where it does not reach the target's device. They go through
// memory of this process where the target is unmapped host memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <utility>

#include "onesided/job/context.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::onesided {
namespace {

// Bytes of a piece that goes through memory of this process. A transfer of at most bounce_size_one
// is a single piece.
constexpr size_t bounce_size_max = size_t{256} << 10, bounce_size_one = 4096;

symmetric_address unmapped_at(const symmetric_address &location, size_t distance) {
  return {
      .mapped = nullptr, .segment_ptr = location.segment_ptr, .offset = location.offset + distance};
}

seams::fabric_atomic signal_atomic(signal_kind kind) {
  return kind == signal_kind::set ? seams::fabric_atomic::swap : seams::fabric_atomic::add;
}

// Returns the previous value.
uint64_t update_mapped(const remote_context::atomic &operation, std::byte *word) {
  if (operation.element == seams::fabric_element::u32) {
    return update_word(operation.kind,
                       reinterpret_cast<uint32_t *>(word),
                       uint32_t(operation.operand),
                       uint32_t(operation.compare));
  }
  return update_word(
      operation.kind, reinterpret_cast<uint64_t *>(word), operation.operand, operation.compare);
}

}  // namespace

// A transfer in pieces: while the device copies one, the fabric moves the others. Each buffer has a
// context of its own, which knows when the buffer is free.
class context::bounce_pipeline {
 public:
  static constexpr size_t depth = 4;

  explicit bounce_pipeline(context &owner)
      : owner_{owner},
        memory_{owner.bounce_memory_.exchange(nullptr)},
        stages_{remote_context{lane()},
                remote_context{lane()},
                remote_context{lane()},
                remote_context{lane()}} {
    if (memory_ == nullptr)
      memory_ = new std::byte[depth * bounce_size_max];
  }
  // After quiet(). The owner keeps the memory, unless another thread's transfer was first.
  ~bounce_pipeline() {
    delete[] owner_.bounce_memory_.exchange(memory_);
  }
  bounce_pipeline(const bounce_pipeline &) = delete;
  bounce_pipeline &operator=(const bounce_pipeline &) = delete;

  remote_context &stage(size_t piece) noexcept {
    return stages_[piece % depth];
  }
  std::byte *buffer(size_t piece) const noexcept {
    return memory_ + piece % depth * bounce_size_max;
  }

  // Starts a piece of a get of `size` bytes from `source`. Past the end there is nothing to start.
  status start_get(size_t piece, pe_index pe, const symmetric_address &source, size_t size) {
    size_t const offset = piece * bounce_size_max;
    if (offset >= size)
      return status::ok;
    return stage(piece).get_nbi(
        pe, buffer(piece), unmapped_at(source, offset), std::min(bounce_size_max, size - offset));
  }

  // Waits for all pieces, even if one of them fails.
  status quiet() {
    status first = status::ok;
    for (auto &entry : stages_) {
      status const code = entry.quiet();
      if (first == status::ok)
        first = code;
    }
    return first;
  }

 private:
  onesided::lane &lane() const noexcept {
    return owner_.remote_->shared_lane();
  }

  context &owner_;
  std::byte *memory_;
  std::array<remote_context, depth> stages_;
};

// Transfers whose caller does not wait. They take the buffers in turn; a buffer that is still in
// use is waited for. What a get has read goes to the device at the next use of its buffer, or in
// finish(). The caller holds the context's mutex.
class context::bounce_ring {
 public:
  explicit bounce_ring(context &owner)
      : owner_{owner}, memory_{new std::byte[slot_count * piece_size_max]} {
    for (size_t i = 0; i < slot_count; i++)
      slots_.emplace_back(owner.remote_->shared_lane(), memory_.get() + i * piece_size_max);
  }
  ~bounce_ring() {
    static_cast<void>(finish());  // after quiet(), which has returned failures
  }
  bounce_ring(const bounce_ring &) = delete;
  bounce_ring &operator=(const bounce_ring &) = delete;

  status put(const symmetric_address &target, const void *source, size_t size, pe_index pe) {
    auto const *const bytes = static_cast<const std::byte *>(source);
    for (size_t done = 0; done < size; done += piece_size_max) {
      size_t const piece = std::min(piece_size_max, size - done);
      slot &next = next_slot();
      TND_TRY(finish(next));
      TND_TRY(owner_.device_queue_->get(next.buffer, bytes + done, piece));
      TND_TRY(next.remote.put_nbi(pe, unmapped_at(target, done), next.buffer, piece));
    }
    return status::ok;
  }

  status get(void *target, const symmetric_address &source, size_t size, pe_index pe) {
    auto *const bytes = static_cast<std::byte *>(target);
    for (size_t done = 0; done < size; done += piece_size_max) {
      size_t const piece = std::min(piece_size_max, size - done);
      slot &next = next_slot();
      TND_TRY(finish(next));
      TND_TRY(next.remote.get_nbi(pe, next.buffer, unmapped_at(source, done), piece));
      next.target = bytes + done;
      next.size = piece;
    }
    return status::ok;
  }

  // Waits for all transfers, even if one of them fails. The device's queue may still copy.
  status finish() {
    status first = status::ok;
    for (size_t i = 0; i < slot_count; i++) {
      status const code = finish(next_slot());
      if (first == status::ok)
        first = code;
    }
    return first;
  }

 private:
  static constexpr size_t slot_count = 16, piece_size_max = size_t{128} << 10;

  struct slot {
    slot(lane &owner, std::byte *memory) : remote{owner}, buffer{memory} {}

    remote_context remote;
    std::byte *buffer;
    std::byte *target = nullptr;  // where a get's data go; null: none are in the buffer
    size_t size = 0;
  };

  slot &next_slot() noexcept {
    return slots_[next_++ % slot_count];
  }
  status finish(slot &used) {
    status const code = used.remote.quiet();
    std::byte *const target = std::exchange(used.target, nullptr);
    if (code != status::ok || target == nullptr)
      return code;
    return owner_.device_queue_->put(target, used.buffer, used.size);
  }

  context &owner_;
  std::unique_ptr<std::byte[]> memory_;
  std::deque<slot> slots_;
  size_t next_ = 0;
};

context::~context() {
  delete[] bounce_memory_.load();
}

context::bounce_ring &context::used_ring() {
  if (bounce_ring_ == nullptr)
    bounce_ring_ = std::make_shared<bounce_ring>(*this);
  return *bounce_ring_;
}

status context::finish_bounced() {
  lock_guard const lock{bounce_mutex_};
  return bounce_ring_ == nullptr ? status::ok : bounce_ring_->finish();
}

status context::put_bounced(symmetric_address target,
                            const void *source,
                            size_t size,
                            pe_index pe) {
  if (size <= bounce_size_one) {
    std::array<std::byte, bounce_size_one> buffer;
    TND_TRY(device_queue_->get(buffer.data(), source, size));
    return remote_->put(pe, unmapped_at(target, 0), buffer.data(), size);
  }
  TND_TRY(remote_->apply_fence());
  bounce_pipeline pipeline{*this};
  auto const *source_bytes = static_cast<const std::byte *>(source);
  status code = status::ok;
  for (size_t piece = 0, done = 0; done < size && code == status::ok; piece++) {
    size_t const piece_size = std::min(bounce_size_max, size - done);
    auto *const buffer = pipeline.buffer(piece);
    code = pipeline.stage(piece).quiet();
    if (code == status::ok)
      code = device_queue_->get(buffer, source_bytes + done, piece_size);
    if (code == status::ok)
      code = pipeline.stage(piece).put_nbi(pe, unmapped_at(target, done), buffer, piece_size);
    done += piece_size;
  }
  status const last = pipeline.quiet();
  return code != status::ok ? code : last;
}

status context::get_bounced(void *target, symmetric_address source, size_t size, pe_index pe) {
  if (size <= bounce_size_one) {
    std::array<std::byte, bounce_size_one> buffer;
    TND_TRY(remote_->get(pe, buffer.data(), unmapped_at(source, 0), size));
    TND_TRY(device_queue_->put(target, buffer.data(), size));
    return quiet_devices();
  }
  bounce_pipeline pipeline{*this};
  status code = status::ok;
  for (size_t piece = 0; piece < bounce_pipeline::depth && code == status::ok; piece++)
    code = pipeline.start_get(piece, pe, source, size);
  auto *target_bytes = static_cast<std::byte *>(target);
  for (size_t piece = 0, done = 0; done < size && code == status::ok; piece++) {
    size_t const piece_size = std::min(bounce_size_max, size - done);
    code = pipeline.stage(piece).quiet();
    if (code == status::ok)
      code = device_queue_->put(target_bytes + done, pipeline.buffer(piece), piece_size);
    if (code == status::ok)
      code = pipeline.start_get(piece + bounce_pipeline::depth, pe, source, size);
    done += piece_size;
  }
  status const last = pipeline.quiet();
  TND_TRY(code != status::ok ? code : last);
  return quiet_devices();
}

status context::put_device(symmetric_address target, const void *source, size_t size, pe_index pe) {
  if (target.is_device()) {
    auto *const device_target = target.device_addr(pe);
    if (device_target == nullptr)
      return staged_->put(pe, target, source, size);
    TND_TRY(device_queue_->put(device_target, source, size));
    map_.wake(pe, target, size);
    return status::ok;
  }
  if (target.mapped != nullptr) {
    TND_TRY(device_queue_->get(target.mapped, source, size));
    map_.wake(pe, target, size);
    return status::ok;
  }
  return put_bounced(target, source, size, pe);
}

status context::put_device_nbi(symmetric_address target,
                               const void *source,
                               size_t size,
                               pe_index pe) {
  if (target.is_device() && target.device_addr(pe) != nullptr) {
    TND_TRY(device_queue_->copy(target.device_addr(pe), source, size));
    map_.wake(pe, target, size);
    return status::ok;
  }
  if (target.is_device())
    return staged_->put_nbi(pe, target, source, size);
  // A put of a single piece copies its source, and waits for nothing.
  if (target.mapped != nullptr || size <= bounce_size_one)
    return put_device(target, source, size, pe);
  TND_TRY(remote_->apply_fence());
  lock_guard const lock{bounce_mutex_};
  return used_ring().put(target, source, size, pe);
}

status context::get_device(void *target, symmetric_address source, size_t size, pe_index pe) {
  bool const is_to_device = map_.is_device_memory(target);
  if (source.is_device()) {
    auto const *const device_source = source.device_addr(pe);
    if (device_source == nullptr)
      return staged_->get(pe, target, source, size);
    if (!is_to_device)
      return device_queue_->get(target, device_source, size);
    TND_TRY(device_queue_->copy(target, device_source, size));
    return quiet_devices();
  }
  if (source.mapped != nullptr) {
    TND_TRY(device_queue_->put(target, source.mapped, size));
    return quiet_devices();
  }
  return get_bounced(target, source, size, pe);
}

status context::get_device_nbi(void *target, symmetric_address source, size_t size, pe_index pe) {
  if (source.is_device()) {
    auto const *const device_source = source.device_addr(pe);
    return device_source == nullptr ? staged_->get_nbi(pe, target, source, size)
                                    : device_queue_->copy(target, device_source, size);
  }
  if (source.mapped != nullptr)
    return device_queue_->copy(target, source.mapped, size);
  lock_guard const lock{bounce_mutex_};
  return used_ring().get(target, source, size, pe);
}

status context::put_rows_device(symmetric_address target,
                                ptrdiff_t lowest_offset,
                                const void *source,
                                const strided_shape &shape,
                                pe_index pe) {
  std::byte *const mapped_target = target.is_device() ? target.device_addr(pe) : target.mapped;
  if (mapped_target != nullptr) {
    TND_TRY(device_queue_->copy_rows(
        mapped_target - lowest_offset,
        source,
        {shape.block_size, shape.count, shape.target_stride, shape.source_stride}));
    TND_TRY(quiet_devices());
    map_.wake(pe, target, target.segment_ptr->size - target.offset);
    return status::ok;
  }
  auto const *source_bytes = static_cast<const std::byte *>(source);
  target.offset -= size_t(lowest_offset);
  bool const is_long = target.is_device() && staged_->may_read_in_place(source, shape.block_size);
  status code = status::ok;
  for (size_t i = 0; i < shape.count && code == status::ok; i++) {
    code = is_long ? put_device_nbi(target, source_bytes, shape.block_size, pe)
                   : put_device(target, source_bytes, shape.block_size, pe);
    target.offset += size_t(shape.target_stride);
    source_bytes += shape.source_stride;
  }
  // Wait even after a failed row, so that the caller may reuse the source.
  status const quiet_status = is_long ? staged_->quiet() : status::ok;
  return code == status::ok ? quiet_status : code;
}

status context::get_rows_device(void *target,
                                symmetric_address source,
                                ptrdiff_t lowest_offset,
                                const strided_shape &shape,
                                pe_index pe) {
  std::byte *const mapped_source = source.is_device() ? source.device_addr(pe) : source.mapped;
  if (mapped_source != nullptr) {
    TND_TRY(device_queue_->copy_rows(
        target,
        mapped_source - lowest_offset,
        {shape.block_size, shape.count, shape.target_stride, shape.source_stride}));
    return quiet_devices();
  }
  auto *target_bytes = static_cast<std::byte *>(target);
  source.offset -= size_t(lowest_offset);
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(get_device_nbi(target_bytes, source, shape.block_size, pe));
    source.offset += size_t(shape.source_stride);
    target_bytes += shape.target_stride;
  }
  return quiet_all();
}

status context::update_device(remote_update call,
                              seams::fabric_atomic kind,
                              symmetric_address target,
                              const word_operands &operands,
                              void *before,
                              pe_index pe) {
  TND_ASSERT(operands.size == 4 || operands.size == 8);
  remote_context::atomic const operation{
      .kind = kind,
      .element = operands.size == 4 ? seams::fabric_element::u32 : seams::fabric_element::u64,
      .operand = operands.operand,
      .compare = operands.compare};
  uint64_t old_value = 0;
  if (target.is_device()) {
    auto *const word = target.device_addr(pe);
    if (word == nullptr) {
      return call == &remote_context::update_nbi
                 ? staged_->update_nbi(pe, target, operation, before)
                 : staged_->update(pe, target, operation, before);
    }
    TND_TRY(device_queue_->update(word,
                                  {kind, operation.element, operation.operand, operation.compare},
                                  before == nullptr ? nullptr : &old_value));
    map_.wake(pe, target, operands.size);
  } else if (target.mapped != nullptr) {
    old_value = update_mapped(operation, target.mapped);
    map_.wake(pe, target, operands.size);
  } else {
    // The result goes to device memory, so wait for it here, even in the _nbi form.
    TND_TRY(remote_->update(pe, target, operation, &old_value));
  }
  return before == nullptr ? status::ok : store_previous(before, old_value, operands.size);
}

// `target` is memory of this process, of either kind.
status context::store_previous(void *target, uint64_t value, size_t size) {
  TND_ASSERT(target != nullptr && size <= sizeof value);
  if (map_.is_device_memory(target))
    return device_queue_->put(target, &value, size);
  std::memcpy(target, &value, size);
  return status::ok;
}

status context::put_signal_device(remote_put_signal call,
                                  symmetric_address target,
                                  const void *source,
                                  size_t size,
                                  const remote_context::signal &signal_update,
                                  pe_index pe) {
  auto const &location = signal_update.location;
  TND_ASSERT(map_.device() != nullptr && location.segment_ptr != nullptr);
  bool const is_staged = location.is_device() && location.device_addr(pe) == nullptr;
  if (is_staged && (size == 0 || target.is_device())) {
    bool const is_blocking = call == &remote_context::put_signal;
    return is_blocking ? staged_->put_signal(pe, target, source, size, signal_update)
                       : staged_->put_signal_nbi(pe, target, source, size, signal_update);
  }
  if (size != 0)
    TND_TRY(put_data_device(target, source, size, pe));
  if (location.is_device())
    return update_signal_device(signal_update, size != 0 && target.is_device(), pe);
  TND_TRY(quiet_devices());
  if (staged_)
    TND_TRY(staged_->quiet());
  if (location.mapped == nullptr)
    return remote_->put_signal(pe, location, nullptr, 0, signal_update);
  update_word(signal_atomic(signal_update.kind),
              reinterpret_cast<uint64_t *>(location.mapped),
              signal_update.value,
              uint64_t{0});
  map_.wake(pe, location, sizeof signal_update.value);
  return status::ok;
}

// The data of a signal. Either of them is in device memory, perhaps only the signal.
status context::put_data_device(symmetric_address target,
                                const void *source,
                                size_t size,
                                pe_index pe) {
  if (involves_device(target, source))
    return put_device(target, source, size, pe);
  if (target.mapped == nullptr)
    return remote_->put(pe, target, source, size);
  std::memmove(target.mapped, source, size);
  map_.wake(pe, target, size);
  return status::ok;
}

status context::update_signal_device(const remote_context::signal &signal_update,
                                     bool is_data_on_device,
                                     pe_index pe) {
  // The data may be in host memory, or travel through the fabric. Complete them before the signal
  // is started.
  if (is_data_on_device)
    TND_TRY(device_queue_->order());
  else if (remote_)
    TND_TRY(remote_->quiet());
  return update_device(nullptr,
                       signal_atomic(signal_update.kind),
                       signal_update.location,
                       {signal_update.value, 0, sizeof signal_update.value},
                       nullptr,
                       pe);
}

status context::copy(void *target, const void *source, size_t size) {
  if (size == 0 || target == source)
    return status::ok;
  if (!map_.is_device_memory(target)) {
    if (map_.is_device_memory(source))
      return device_queue_->get(target, source, size);
    std::memmove(target, source, size);
    return status::ok;
  }
  TND_TRY(device_queue_->copy(target, source, size));
  return quiet_devices();
}

// The next quiet returns a failure of the queue, and of transfers that the fence waits for.
void context::fence_devices() noexcept {
  TND_ASSERT(device_queue_ != nullptr);
  if (status const code = finish_bounced(); code != status::ok)
    fence_failure_.store(code);
  static_cast<void>(device_queue_->order());
  if (staged_)
    staged_->fence();
}

status context::quiet_devices() {
  TND_ASSERT(device_queue_ != nullptr);
  return device_queue_->wait(
      seams::deadline_after(seams::monotonic_clock().now_ns(), map_.timeout_ns()));
}

// Waits for all parts, even if one of them fails.
status context::quiet_all() {
  status const fenced = fence_failure_.exchange(status::ok), bounced = finish_bounced();
  status const copied = quiet_devices();
  status const staged = staged_ && staged_->is_busy() ? staged_->quiet() : status::ok;
  status const moved = remote_ && remote_->is_busy() ? remote_->quiet() : status::ok;
  for (status const code : {fenced, bounced, copied, staged}) {
    if (code != status::ok)
      return code;
  }
  return moved;
}

}  // namespace tanada::onesided
