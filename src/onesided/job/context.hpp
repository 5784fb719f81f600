// onesided/job/context.hpp: one-sided operations of host code: loads and stores where the target is
// mapped, the fabric elsewhere, a queue of the device where either side is its memory. What shmem
// and comex call.
#pragma once

#include <cstring>
#include <optional>

#include "onesided/job/atomics.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/staging.hpp"

namespace tanada::pgas {

// `count` blocks of `block_size` bytes, whose beginnings are `target_stride` and `source_stride`
// bytes apart.
struct strided_shape {
  size_t block_size, count;
  ptrdiff_t target_stride, source_stride;
};

// Operations of remote_context (there: ordering, completion, errors), with addresses of this
// process for symmetric memory. Besides: invalid for no such PE; fault for a word that is not
// aligned to its size; range for an address that is not symmetric, or a range that leaves its
// segment: nothing has happened then. Zero bytes are nothing to do. Operations on mapped memory are
// complete when they return, as loads and stores are: fence and quiet order them. Local memory may
// be the device's, too, but for what accumulate adds.
//
// Rules 1 to 9 of docs/pgas.md hold for memory of the device, and of put_signal whose two places
// are of different kinds, but fence: it does not order operations on host memory and on device
// memory of a PE with one another.
class context {
 public:
  // `devices`: of a job with device memory. `can_wait`: see remote_context. `staging`: the job's,
  // for devices that no queue reaches.
  context(const symmetric_map &map, lane *remote,
          std::unique_ptr<port::device_queue> devices = nullptr, bool can_wait = false,
          stager *staging = nullptr)
      : map_{map}, devices_{std::move(devices)} {
    if (remote != nullptr)
      remote_.emplace(*remote, can_wait);
    if (staging != nullptr)
      staged_.emplace(*staging);
  }

  status put(void *target, const void *source, size_t size, pe_index pe) {
    return put_by(&remote_context::put, target, source, size, pe);
  }
  status put_nbi(void *target, const void *source, size_t size, pe_index pe) {
    return put_by(&remote_context::put_nbi, target, source, size, pe);
  }
  status get(void *target, const void *source, size_t size, pe_index pe) {
    return get_by(&remote_context::get, target, source, size, pe);
  }
  status get_nbi(void *target, const void *source, size_t size, pe_index pe) {
    return get_by(&remote_context::get_nbi, target, source, size, pe);
  }

  // One element: as put and get, without a call for the copy. These, and updates, take as long as a
  // call would where the memory is mapped: they are part of their callers.
  template <class T>
  [[gnu::always_inline]] status put_value(T *target, T value, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    auto const to = map_.locate(target, sizeof(T), pe);
    if (to.mapped != nullptr) [[likely]] {
      std::memcpy(to.mapped, &value, sizeof(T));
      map_.ring(pe, to, sizeof(T));
      return status::ok;
    }
    if (to.where == nullptr)
      return status::range;
    return to.is_device() ? put_device(to, &value, sizeof(T), pe)
                          : remote_->put(pe, to, &value, sizeof(T));
  }
  template <class T>
  [[gnu::always_inline]] status get_value(T &value, const T *source, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    auto const from = map_.locate(source, sizeof(T), pe);
    if (from.mapped != nullptr) [[likely]] {
      std::memcpy(&value, from.mapped, sizeof(T));
      return status::ok;
    }
    if (from.where == nullptr)
      return status::range;
    return from.is_device() ? get_device(&value, from, sizeof(T), pe)
                            : remote_->get(pe, &value, from, sizeof(T));
  }

  status put_strided(void *target, const void *source, const strided_shape &shape, pe_index pe);
  status get_strided(void *target, const void *source, const strided_shape &shape, pe_index pe);

  // Several pieces of one size, `targets[i]` from `sources[i]`.
  status put_vector(std::span<void *const> targets, std::span<const void *const> sources,
                    size_t size, pe_index pe);
  status get_vector(std::span<void *const> targets, std::span<const void *const> sources,
                    size_t size, pe_index pe);

  // `before`: what was there, null if nobody asks (never for fetch and compare_swap). _nbi: there
  // after quiet.
  template <atomic_word T>
  [[gnu::always_inline]] status update(port::fabric_atomic kind, T *target, T operand, T compare,
                                       T *before, pe_index pe) {
    return update_by(&remote_context::update, kind, target, operand, compare, before, pe);
  }
  template <atomic_word T>
  [[gnu::always_inline]] status update_nbi(port::fabric_atomic kind, T *target, T operand,
                                           T compare, T *before, pe_index pe) {
    return update_by(&remote_context::update_nbi, kind, target, operand, compare, before, pe);
  }

  // target[i] += source[i]: each element at once, for atomics and accumulates from anywhere.
  status accumulate(port::fabric_element element, void *target, const void *source, size_t size,
                    pe_index pe);

  status put_signal(void *target, const void *source, size_t size, uint64_t *signal,
                    signal_kind kind, uint64_t value, pe_index pe);
  status put_signal_nbi(void *target, const void *source, size_t size, uint64_t *signal,
                        signal_kind kind, uint64_t value, pe_index pe);

  void fence() noexcept {
    std::atomic_thread_fence(std::memory_order_release);
    if (remote_)
      remote_->fence();
    if (devices_) [[unlikely]]
      fence_devices();
  }
  // Stores to mapped memory are seen by all who look from now on.
  status quiet() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (devices_) [[unlikely]]
      return quiet_all();
    return remote_ && remote_->is_busy() ? remote_->quiet() : status::ok;
  }

  // Operations on host memory elsewhere are under way, or a failure of one is not told yet.
  bool is_busy() const noexcept {
    return remote_ && remote_->is_busy();
  }

  // Memory that processors do not reach: to be moved by operations and copy() alone.
  [[gnu::always_inline]] bool is_device_memory(const void *addr) const noexcept {
    return map_.is_device_memory(addr);
  }

  // Between places of this process, of either kind: what collectives do beside their operations.
  // Complete when it returns.
  status copy(void *target, const void *source, size_t size);

 private:
  using remote_put = status (remote_context::*)(pe_index, place, const void *, size_t);
  using remote_get = status (remote_context::*)(pe_index, void *, place, size_t);

  status put_by(remote_put call, void *target, const void *source, size_t size, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (size == 0) [[unlikely]]
      return status::ok;
    auto const to = map_.locate(target, size, pe);
    if (map_.device() != nullptr && to.where != nullptr &&
        (to.is_device() || map_.is_device_memory(source))) [[unlikely]] {
      return call == &remote_context::put ? put_device(to, source, size, pe)
                                          : put_device_nbi(to, source, size, pe);
    }
    if (to.mapped != nullptr) [[likely]] {
      std::memmove(to.mapped, source, size);
      map_.ring(pe, to, size);
      return status::ok;
    }
    return to.where == nullptr ? status::range : ((*remote_).*call)(pe, to, source, size);
  }
  status get_by(remote_get call, void *target, const void *source, size_t size, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (size == 0) [[unlikely]]
      return status::ok;
    auto const from = map_.locate(source, size, pe);
    if (map_.device() != nullptr && from.where != nullptr &&
        (from.is_device() || map_.is_device_memory(target))) [[unlikely]] {
      return call == &remote_context::get ? get_device(target, from, size, pe)
                                          : get_device_nbi(target, from, size, pe);
    }
    if (from.mapped != nullptr) [[likely]] {
      std::memmove(target, from.mapped, size);
      return status::ok;
    }
    return from.where == nullptr ? status::range : ((*remote_).*call)(pe, target, from, size);
  }

  using remote_update = status (remote_context::*)(pe_index, place, const remote_context::atomic &,
                                                   void *);
  template <atomic_word T>
  [[gnu::always_inline]] status update_by(remote_update call, port::fabric_atomic kind, T *target,
                                          T operand, T compare, T *before, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (reinterpret_cast<uintptr_t>(target) % sizeof(T) != 0) [[unlikely]]
      return status::fault;
    auto const to = map_.locate(target, sizeof(T), pe);
    if (map_.device() != nullptr && to.where != nullptr &&
        (to.is_device() || map_.is_device_memory(before))) [[unlikely]] {
      return update_device(call, kind, to, {operand, compare, sizeof(T)}, before, pe);
    }
    if (to.mapped != nullptr) [[likely]] {
      T const there = update_here(kind, reinterpret_cast<T *>(to.mapped), operand, compare);
      if (before != nullptr)
        *before = there;
      map_.ring(pe, to, sizeof(T));
      return status::ok;
    }
    if (to.where == nullptr)
      return status::range;
    constexpr auto element = sizeof(T) == 4 ? port::fabric_element::u32 : port::fabric_element::u64;
    return ((*remote_).*call)(
        pe, to, {.kind = kind, .element = element, .operand = operand, .compare = compare}, before);
  }

  using remote_put_signal = status (remote_context::*)(pe_index, place, const void *, size_t,
                                                       const remote_context::signal &);
  status put_signal_by(remote_put_signal call, void *target, const void *source, size_t size,
                       uint64_t *signal, signal_kind kind, uint64_t value, pe_index pe);

  // context_device.cc: where either side is device memory. The place is symmetric.
  status put_device(place to, const void *source, size_t size, pe_index pe);
  status put_device_nbi(place to, const void *source, size_t size, pe_index pe);
  status get_device(void *target, place from, size_t size, pe_index pe);
  status get_device_nbi(void *target, place from, size_t size, pe_index pe);
  // `first`: of the blocks' beginnings, bytes from the place's, which is that of the lowest.
  status put_rows_device(place to, ptrdiff_t first, const void *source, const strided_shape &shape,
                         pe_index pe);
  status get_rows_device(void *target, place from, ptrdiff_t first, const strided_shape &shape,
                         pe_index pe);
  struct word_operands {
    uint64_t operand, compare;
    size_t size;  // bytes of the word
  };
  status update_device(remote_update call, port::fabric_atomic kind, place to,
                       const word_operands &with, void *before, pe_index pe);
  status put_signal_device(remote_put_signal call, place to, const void *source, size_t size,
                           const remote_context::signal &then, pe_index pe);
  bool concerns_devices(const place &to, const void *local) const noexcept {
    return to.is_device() || map_.is_device_memory(local);
  }
  void fence_devices() noexcept;
  status quiet_devices();
  status quiet_all();

  const symmetric_map &map_;
  std::optional<remote_context> remote_;         // none: all PEs are mapped
  std::optional<staged_context> staged_;         // none: queues reach all devices' memory
  std::unique_ptr<port::device_queue> devices_;  // null: no memory of a device is symmetric
};

}  // namespace tanada::pgas
