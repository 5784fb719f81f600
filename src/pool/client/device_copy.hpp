// pool/client/device_copy.hpp: bytes between device memory and host memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "pool/client/device_mapping.hpp"
#include "pool/client/registrar.hpp"
#include "port/gpu/gpu.hpp"
#include "port/thread/team.hpp"

namespace tanada::pool {

enum class copy_direction : uint8_t { to_host, to_device };

// Copies of one CUDA device, for all connections of the process.
//
// Registered memory is copied by the GPU. Until the registrar has come by, bytes go through slots of pinned memory: threads
// share the work, so that one copies between its slot and the pool while the GPU fills or reads the slots of others.
//
// Thread-safe.
class device_copy {
 public:
  static constexpr size_t slot_size = size_t{1} << 20;
  static constexpr unsigned slot_count = 16, helper_count_max = 11;

  // A range of a mapping and of device memory.
  struct part {
    device_mapping *mapping;
    uint64_t offset;  // in the mapping
    std::byte *device;
    uint64_t size;
  };

  // That of this process for the device; opened once. no_device, no_plugin: the message says why.
  static result<std::shared_ptr<device_copy>> of_process(uint32_t device_index);

  // Has it opened in the background, so that the first transfer need not wait for it.
  static void prepare(uint32_t device_index);

  // `registration` outlives it.
  static result<std::shared_ptr<device_copy>> create(std::shared_ptr<port::gpu> gpu, registrar &registration);
  ~device_copy();

  // `helpers`: the caller's, for when another transfer has those of the process. `is_staged`: some bytes went through pinned
  // memory. device_lost or what the driver returned, with a message.
  status copy(std::span<const part> parts, copy_direction direction, port::team &helpers, bool &is_staged);

  // Registers the mapping: one of huge pages at once, as that takes less time than staging its bytes, others in the background.
  void add(const std::shared_ptr<device_mapping> &mapping);

  port::gpu &gpu() noexcept { return *gpu_; }
  port::team &helpers() noexcept { return helpers_; }

 private:
  device_copy(std::shared_ptr<port::gpu> gpu, registrar &registration);
  std::byte *take_slot();
  void return_slot(std::byte *slot);
  void warm_up();
  static std::vector<part> split(std::span<const part> parts, unsigned &staged_count);
  status copy_one(const part &piece, copy_direction direction);
  status copy_staged(const part &piece, copy_direction direction);

  std::shared_ptr<port::gpu> const gpu_;
  registrar &registration_;
  int const owner_;  // process id
  std::byte *stage_ = nullptr;
  std::atomic<unsigned> staging_count_{0};  // transfers that want helpers
  port::team helpers_{helper_count_max};
  std::mutex mutex_;
  std::condition_variable slot_returned_;
  std::vector<std::byte *> free_slots_;  // guarded by mutex_
};

// Pinned memory of one connection.
class pinned_buffer {
 public:
  static result<std::unique_ptr<pinned_buffer>> create(std::shared_ptr<device_copy> copies, size_t size);
  ~pinned_buffer();
  pinned_buffer(const pinned_buffer &) = delete;
  pinned_buffer &operator=(const pinned_buffer &) = delete;
  std::byte *data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  pinned_buffer(std::shared_ptr<device_copy> copies, std::byte *data, size_t size);

  std::shared_ptr<device_copy> const copies_;
  std::byte *const data_;
  size_t const size_;
};

}  // namespace tanada::pool
