// Operations where either side is memory of a device: by the context's queue where the device
// reaches both; staged where it does not reach the target's device; through memory of this process
// where the target is host memory elsewhere.
#include <cstring>
#include <vector>

#include "onesided/job/context.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pgas {
namespace {

constexpr size_t bounce_size_max = size_t{256}
                                   << 10;  // bytes that go through memory of this process at a time

}  // namespace

status context::put_device(place to, const void *source, size_t size, pe_index pe) {
  if (to.is_device()) {
    auto *const there = to.reached(pe);
    if (there == nullptr)
      return staged_->put(pe, to, source, size);
    TND_TRY(devices_->put(there, source, size));
    map_.ring(pe, to, size);
    return status::ok;
  }
  if (to.mapped != nullptr) {
    TND_TRY(devices_->get(to.mapped, source, size));
    map_.ring(pe, to, size);
    return status::ok;
  }
  std::vector<std::byte> bounce(std::min(size, bounce_size_max));
  auto const *from = static_cast<const std::byte *>(source);
  for (size_t done = 0; done < size; done += bounce.size()) {
    size_t const piece = std::min(bounce.size(), size - done);
    TND_TRY(devices_->get(bounce.data(), from + done, piece));
    TND_TRY(remote_->put(pe, {.mapped = nullptr, .where = to.where, .offset = to.offset + done},
                         bounce.data(), piece));
  }
  return status::ok;
}

status context::put_device_nbi(place to, const void *source, size_t size, pe_index pe) {
  if (to.is_device() && to.reached(pe) != nullptr) {
    TND_TRY(devices_->copy(to.reached(pe), source, size));
    map_.ring(pe, to, size);
    return status::ok;
  }
  return to.is_device() ? staged_->put_nbi(pe, to, source, size) : put_device(to, source, size, pe);
}

status context::get_device(void *target, place from, size_t size, pe_index pe) {
  bool const is_to_device = map_.is_device_memory(target);
  if (from.is_device()) {
    auto const *const there = from.reached(pe);
    if (there == nullptr)
      return staged_->get(pe, target, from, size);
    if (!is_to_device)
      return devices_->get(target, there, size);
    TND_TRY(devices_->copy(target, there, size));
    return quiet_devices();
  }
  if (from.mapped != nullptr) {
    TND_TRY(devices_->put(target, from.mapped, size));
    return quiet_devices();
  }
  std::vector<std::byte> bounce(std::min(size, bounce_size_max));
  auto *to = static_cast<std::byte *>(target);
  for (size_t done = 0; done < size; done += bounce.size()) {
    size_t const piece = std::min(bounce.size(), size - done);
    TND_TRY(remote_->get(pe, bounce.data(),
                         {.mapped = nullptr, .where = from.where, .offset = from.offset + done},
                         piece));
    TND_TRY(devices_->put(to + done, bounce.data(), piece));
  }
  return quiet_devices();
}

status context::get_device_nbi(void *target, place from, size_t size, pe_index pe) {
  if (from.is_device()) {
    auto const *const there = from.reached(pe);
    return there == nullptr ? staged_->get_nbi(pe, target, from, size)
                            : devices_->copy(target, there, size);
  }
  if (from.mapped != nullptr)
    return devices_->copy(target, from.mapped, size);
  return get_device(target, from, size, pe);
}

status context::put_rows_device(place to, ptrdiff_t first, const void *source,
                                const strided_shape &shape, pe_index pe) {
  std::byte *const there = to.is_device() ? to.reached(pe) : to.mapped;
  if (there != nullptr) {
    TND_TRY(devices_->copy_rows(
        there - first, source,
        {shape.block_size, shape.count, shape.target_stride, shape.source_stride}));
    TND_TRY(quiet_devices());
    map_.ring(pe, to, to.where->size - to.offset);
    return status::ok;
  }
  auto const *from = static_cast<const std::byte *>(source);
  to.offset -= size_t(first);
  bool const is_long = to.is_device() && staged_->may_keep(source, shape.block_size);
  status code = status::ok;
  for (size_t i = 0; i < shape.count && code == status::ok; i++) {
    code = is_long ? put_device_nbi(to, from, shape.block_size, pe)
                   : put_device(to, from, shape.block_size, pe);
    to.offset += size_t(shape.target_stride);
    from += shape.source_stride;
  }
  // The source is the caller's again, whatever has become of the last row.
  status const end = is_long ? staged_->quiet() : status::ok;
  return code == status::ok ? end : code;
}

status context::get_rows_device(void *target, place from, ptrdiff_t first,
                                const strided_shape &shape, pe_index pe) {
  std::byte *const there = from.is_device() ? from.reached(pe) : from.mapped;
  if (there != nullptr) {
    TND_TRY(devices_->copy_rows(
        target, there - first,
        {shape.block_size, shape.count, shape.target_stride, shape.source_stride}));
    return quiet_devices();
  }
  auto *to = static_cast<std::byte *>(target);
  from.offset -= size_t(first);
  for (size_t i = 0; i < shape.count; i++) {
    TND_TRY(get_device_nbi(to, from, shape.block_size, pe));
    from.offset += size_t(shape.source_stride);
    to += shape.target_stride;
  }
  return quiet_all();
}

status context::update_device(remote_update call, port::fabric_atomic kind, place to,
                              const word_operands &with, void *before, pe_index pe) {
  auto const element = with.size == 4 ? port::fabric_element::u32 : port::fabric_element::u64;
  uint64_t there = 0;
  if (to.is_device()) {
    auto *const word = to.reached(pe);
    if (word == nullptr) {
      remote_context::atomic const what{
          .kind = kind, .element = element, .operand = with.operand, .compare = with.compare};
      return call == &remote_context::update_nbi ? staged_->update_nbi(pe, to, what, before)
                                                 : staged_->update(pe, to, what, before);
    }
    TND_TRY(devices_->update(word, {kind, element, with.operand, with.compare},
                             before == nullptr ? nullptr : &there));
    map_.ring(pe, to, with.size);
  } else if (to.mapped != nullptr) {
    there = with.size == 4 ? update_here(kind, reinterpret_cast<uint32_t *>(to.mapped),
                                         uint32_t(with.operand), uint32_t(with.compare))
                           : update_here(kind, reinterpret_cast<uint64_t *>(to.mapped),
                                         with.operand, with.compare);
    map_.ring(pe, to, with.size);
  } else {
    // The result goes to device memory: it is waited for here whatever was asked.
    TND_TRY(remote_->update(
        pe, to,
        {.kind = kind, .element = element, .operand = with.operand, .compare = with.compare},
        &there));
  }
  if (before == nullptr)
    return status::ok;
  if (!map_.is_device_memory(before)) {
    std::memcpy(before, &there, with.size);
    return status::ok;
  }
  return devices_->put(before, &there, with.size);
}

status context::put_signal_device(remote_put_signal call, place to, const void *source, size_t size,
                                  const remote_context::signal &then, pe_index pe) {
  bool const is_staged = then.at.is_device() && then.at.reached(pe) == nullptr;
  if (is_staged && (size == 0 || to.is_device())) {
    bool const waits = call == &remote_context::put_signal;
    return waits ? staged_->put_signal(pe, to, source, size, then)
                 : staged_->put_signal_nbi(pe, to, source, size, then);
  }
  if (size != 0) {
    if (concerns_devices(to, source)) {
      TND_TRY(put_device(to, source, size, pe));
    } else if (to.mapped != nullptr) {
      std::memmove(to.mapped, source, size);
      map_.ring(pe, to, size);
    } else {
      TND_TRY(remote_->put(pe, to, source, size));
    }
  }
  auto const kind =
      then.kind == signal_kind::set ? port::fabric_atomic::swap : port::fabric_atomic::add;
  if (then.at.is_device()) {
    // The data may be in host memory, or come by the fabric: then they are there before the signal
    // is started.
    if (size != 0 && to.is_device()) {
      TND_TRY(devices_->order());
    } else if (remote_) {
      TND_TRY(remote_->quiet());
    }
    return update_device(nullptr, kind, then.at, {then.value, 0, sizeof then.value}, nullptr, pe);
  }
  TND_TRY(quiet_devices());
  if (staged_)
    TND_TRY(staged_->quiet());
  if (then.at.mapped == nullptr)
    return remote_->put_signal(pe, then.at, nullptr, 0, then);
  update_here(kind, reinterpret_cast<uint64_t *>(then.at.mapped), then.value, uint64_t{0});
  map_.ring(pe, then.at, sizeof then.value);
  return status::ok;
}

status context::copy(void *target, const void *source, size_t size) {
  if (size == 0 || target == source)
    return status::ok;
  if (!map_.is_device_memory(target)) {
    if (map_.is_device_memory(source))
      return devices_->get(target, source, size);
    std::memmove(target, source, size);
    return status::ok;
  }
  TND_TRY(devices_->copy(target, source, size));
  return quiet_devices();
}

// A queue that has failed says so at the next quiet.
void context::fence_devices() noexcept {
  static_cast<void>(devices_->order());
  if (staged_)
    staged_->fence();
}

status context::quiet_devices() {
  return devices_->wait(port::deadline_after(port::monotonic_clock().now_ns(), map_.timeout_ns()));
}

// All of it, whatever fails.
status context::quiet_all() {
  status const copied = quiet_devices();
  status const staged = staged_ && staged_->is_busy() ? staged_->quiet() : status::ok;
  status const moved = remote_ && remote_->is_busy() ? remote_->quiet() : status::ok;
  return copied != status::ok ? copied : staged != status::ok ? staged : moved;
}

}  // namespace tanada::pgas
