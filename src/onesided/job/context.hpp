// onesided/job/context.hpp: one-sided operations of host code, which shmem and comex call. A mapped
// target is reached by loads and stores, an unmapped one through the fabric. A queue of the device
// is used where either side is device memory.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/mutex.hpp"
#include "onesided/job/atomics.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/staging.hpp"

namespace tanada::onesided {

// `count` blocks of `block_size` bytes, whose starts are `target_stride` and `source_stride` bytes
// apart.
struct strided_shape {
  size_t block_size, count;
  ptrdiff_t target_stride, source_stride;
};

// The operations of remote_context (see there for ordering, completion and errors). Symmetric
// memory is given by its address in this process. Further statuses: invalid: there is no such PE.
// fault: a word is not aligned to its size. range: an address is not symmetric, or a range leaves
// its segment. After these nothing has happened. A transfer of zero bytes is a no-op. Operations on
// mapped memory are complete when they return, as loads and stores are; fence and quiet order them.
// Local memory may be device memory, except the source of accumulate.
//
// Rules 1 to 9 of docs/pgas.md also hold for device memory, and for a put_signal whose data and
// signal are in memory of different kinds. The exception is fence: it does not order operations on
// host memory of a PE with operations on its device memory.
class context {
 public:
  // `queue` is for jobs with device memory. `may_delay`: see remote_context. `staging` is the job's
  // stager, for devices that no queue reaches.
  context(const symmetric_map &map,
          lane *remote,
          std::unique_ptr<seams::device_queue> queue = nullptr,
          bool may_delay = false,
          stager *staging = nullptr)
      : map_{map}, device_queue_{std::move(queue)} {
    if (remote != nullptr)
      remote_.emplace(*remote, may_delay);
    if (staging != nullptr)
      staged_.emplace(*staging);
  }
  ~context();
  context(const context &) = delete;
  context &operator=(const context &) = delete;

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

  // Transfer one element as put and get do, without a function call for the copy. These functions
  // and the updates are inlined: on mapped memory the operation takes no longer than a call.
  template <class T>
  [[gnu::always_inline]] status put_value(T *target, T value, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    auto const location = map_.locate(target, sizeof(T), pe);
    if (location.mapped != nullptr) [[likely]] {
      std::memcpy(location.mapped, &value, sizeof(T));
      map_.wake(pe, location, sizeof(T));
      return status::ok;
    }
    if (location.segment_ptr == nullptr)
      return status::range;
    return location.is_device() ? put_device(location, &value, sizeof(T), pe)
                                : remote_->put(pe, location, &value, sizeof(T));
  }
  template <class T>
  [[gnu::always_inline]] status get_value(T &value, const T *source, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    auto const location = map_.locate(source, sizeof(T), pe);
    if (location.mapped != nullptr) [[likely]] {
      std::memcpy(&value, location.mapped, sizeof(T));
      return status::ok;
    }
    if (location.segment_ptr == nullptr)
      return status::range;
    return location.is_device() ? get_device(&value, location, sizeof(T), pe)
                                : remote_->get(pe, &value, location, sizeof(T));
  }

  status put_strided(void *target, const void *source, const strided_shape &shape, pe_index pe);
  status get_strided(void *target, const void *source, const strided_shape &shape, pe_index pe);

  // Transfer several blocks of one size: `targets[i]` from `sources[i]`.
  status put_vector(std::span<void *const> targets,
                    std::span<const void *const> sources,
                    size_t size,
                    pe_index pe);
  status get_vector(std::span<void *const> targets,
                    std::span<const void *const> sources,
                    size_t size,
                    pe_index pe);

  // `before` receives the previous value. It may be null, except for fetch and compare_swap. In the
  // _nbi form the value is there after quiet.
  template <atomic_word T>
  [[gnu::always_inline]] status update(
      seams::fabric_atomic kind, T *target, T operand, T compare, T *before, pe_index pe) {
    return update_by(&remote_context::update, kind, target, operand, compare, before, pe);
  }
  template <atomic_word T>
  [[gnu::always_inline]] status update_nbi(
      seams::fabric_atomic kind, T *target, T operand, T compare, T *before, pe_index pe) {
    return update_by(&remote_context::update_nbi, kind, target, operand, compare, before, pe);
  }

  // Performs target[i] += source[i]. Each element is updated atomically with respect to atomics and
  // accumulates of all PEs.
  status accumulate(
      seams::fabric_element element, void *target, const void *source, size_t size, pe_index pe);

  status put_signal(void *target,
                    const void *source,
                    size_t size,
                    uint64_t *signal,
                    signal_kind kind,
                    uint64_t value,
                    pe_index pe);
  status put_signal_nbi(void *target,
                        const void *source,
                        size_t size,
                        uint64_t *signal,
                        signal_kind kind,
                        uint64_t value,
                        pe_index pe);

  void fence() noexcept {
    std::atomic_thread_fence(std::memory_order_release);
    if (remote_)
      remote_->fence();
    if (device_queue_) [[unlikely]]
      fence_devices();
  }
  // When it returns, stores to mapped memory are visible to all PEs.
  status quiet() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (device_queue_) [[unlikely]]
      return quiet_all();
    return remote_ && remote_->is_busy() ? remote_->quiet() : status::ok;
  }

  // True while operations on unmapped host memory are outstanding, or a failure of one has not been
  // returned yet.
  bool is_busy() const noexcept {
    return remote_ && remote_->is_busy();
  }

  // Whether processors cannot access the memory: only operations and copy() move it.
  [[gnu::always_inline]] bool is_device_memory(const void *addr) const noexcept {
    return map_.is_device_memory(addr);
  }

  // Copies between two addresses of this process, in host or device memory. Collectives use it
  // beside their operations. Complete when it returns.
  status copy(void *target, const void *source, size_t size);

 private:
  // Whether the operation needs the context's queue or the stager.
  [[gnu::always_inline]] bool needs_device(const symmetric_address &location,
                                           const void *local) const noexcept {
    return map_.device() != nullptr && location.segment_ptr != nullptr &&
           involves_device(location, local);
  }

  status put_blocks(symmetric_address target,
                    const std::byte *source,
                    const strided_shape &shape,
                    pe_index pe);
  status get_blocks(std::byte *target,
                    symmetric_address source,
                    const strided_shape &shape,
                    pe_index pe);

  using remote_put = status (remote_context::*)(pe_index, symmetric_address, const void *, size_t);
  using remote_get = status (remote_context::*)(pe_index, void *, symmetric_address, size_t);

  status put_by(remote_put call, void *target, const void *source, size_t size, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (size == 0) [[unlikely]]
      return status::ok;
    auto const location = map_.locate(target, size, pe);
    if (needs_device(location, source)) [[unlikely]] {
      return call == &remote_context::put ? put_device(location, source, size, pe)
                                          : put_device_nbi(location, source, size, pe);
    }
    if (location.mapped != nullptr) [[likely]] {
      std::memmove(location.mapped, source, size);
      map_.wake(pe, location, size);
      return status::ok;
    }
    return location.segment_ptr == nullptr ? status::range
                                           : ((*remote_).*call)(pe, location, source, size);
  }
  status get_by(remote_get call, void *target, const void *source, size_t size, pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (size == 0) [[unlikely]]
      return status::ok;
    auto const location = map_.locate(source, size, pe);
    if (needs_device(location, target)) [[unlikely]] {
      return call == &remote_context::get ? get_device(target, location, size, pe)
                                          : get_device_nbi(target, location, size, pe);
    }
    if (location.mapped != nullptr) [[likely]] {
      std::memmove(target, location.mapped, size);
      return status::ok;
    }
    return location.segment_ptr == nullptr ? status::range
                                           : ((*remote_).*call)(pe, target, location, size);
  }

  using remote_update = status (remote_context::*)(pe_index,
                                                   symmetric_address,
                                                   const remote_context::atomic &,
                                                   void *);
  template <atomic_word T>
  [[gnu::always_inline]] status update_by(remote_update call,
                                          seams::fabric_atomic kind,
                                          T *target,
                                          T operand,
                                          T compare,
                                          T *before,
                                          pe_index pe) {
    if (!map_.is_pe(pe)) [[unlikely]]
      return status::invalid;
    if (reinterpret_cast<uintptr_t>(target) % sizeof(T) != 0) [[unlikely]]
      return status::fault;
    auto const location = map_.locate(target, sizeof(T), pe);
    if (needs_device(location, before)) [[unlikely]] {
      return update_device(call, kind, location, {operand, compare, sizeof(T)}, before, pe);
    }
    if (location.mapped != nullptr) [[likely]] {
      T const old_value =
          update_word(kind, reinterpret_cast<T *>(location.mapped), operand, compare);
      if (before != nullptr)
        *before = old_value;
      map_.wake(pe, location, sizeof(T));
      return status::ok;
    }
    if (location.segment_ptr == nullptr)
      return status::range;
    constexpr auto element =
        sizeof(T) == 4 ? seams::fabric_element::u32 : seams::fabric_element::u64;
    return ((*remote_).*call)(
        pe,
        location,
        {.kind = kind, .element = element, .operand = operand, .compare = compare},
        before);
  }

  using remote_put_signal = status (remote_context::*)(
      pe_index, symmetric_address, const void *, size_t, const remote_context::signal &);
  status put_signal_by(remote_put_signal call,
                       void *target,
                       const void *source,
                       size_t size,
                       uint64_t *signal,
                       signal_kind kind,
                       uint64_t value,
                       pe_index pe);

  // context_device.cc: operations with device memory on either side. The location is symmetric.
  status put_device(symmetric_address target, const void *source, size_t size, pe_index pe);
  status put_device_nbi(symmetric_address target, const void *source, size_t size, pe_index pe);
  status get_device(void *target, symmetric_address source, size_t size, pe_index pe);
  status get_device_nbi(void *target, symmetric_address source, size_t size, pe_index pe);
  // The location is that of the lowest block. `lowest_offset` (at most 0): bytes from the start of
  // the first block to it.
  status put_rows_device(symmetric_address target,
                         ptrdiff_t lowest_offset,
                         const void *source,
                         const strided_shape &shape,
                         pe_index pe);
  status get_rows_device(void *target,
                         symmetric_address source,
                         ptrdiff_t lowest_offset,
                         const strided_shape &shape,
                         pe_index pe);
  struct word_operands {
    uint64_t operand, compare;
    size_t size;  // bytes of the word
  };
  status update_device(remote_update call,
                       seams::fabric_atomic kind,
                       symmetric_address target,
                       const word_operands &operands,
                       void *before,
                       pe_index pe);
  status store_previous(void *target, uint64_t value, size_t size);
  status put_data_device(symmetric_address target, const void *source, size_t size, pe_index pe);
  status put_signal_device(remote_put_signal call,
                           symmetric_address target,
                           const void *source,
                           size_t size,
                           const remote_context::signal &signal_update,
                           pe_index pe);
  status update_signal_device(const remote_context::signal &signal_update,
                              bool is_data_on_device,
                              pe_index pe);
  [[gnu::always_inline]] bool involves_device(const symmetric_address &location,
                                              const void *local) const noexcept {
    return location.is_device() || map_.is_device_memory(local);
  }
  // Between memory of the device and unmapped host memory, through memory of this process.
  class bounce_pipeline;
  class bounce_ring;
  bounce_ring &used_ring();
  status finish_bounced();
  status put_bounced(symmetric_address target, const void *source, size_t size, pe_index pe);
  status get_bounced(void *target, symmetric_address source, size_t size, pe_index pe);
  void fence_devices() noexcept;
  status quiet_devices();
  status quiet_all();

  const symmetric_map &map_;
  std::optional<remote_context> remote_;  // none: all PEs are mapped
  std::optional<staged_context> staged_;  // none: queues reach the memory of all devices
  std::unique_ptr<seams::device_queue> device_queue_;  // null: no device memory is symmetric
  // What the last bounce_pipeline used, and the next one takes.
  std::atomic<std::byte *> bounce_memory_{nullptr};
  mutex bounce_mutex_;                        // held while a transfer waits for a buffer
  std::shared_ptr<bounce_ring> bounce_ring_;  // null until it is needed; by bounce_mutex_
  std::atomic<status> fence_failure_{status::ok};
};

}  // namespace tanada::onesided
