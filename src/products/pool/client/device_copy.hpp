// products/pool/client/device_copy.hpp: bytes between device memory and host memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "products/pool/client/copy_queue.hpp"
#include "products/pool/client/device_mapping.hpp"
#include "products/pool/client/registrar.hpp"
#include "seams/gpu/gpu.hpp"
#include "seams/os/team.hpp"

namespace tanada::pool {

enum class copy_direction : uint8_t { to_host, to_device };

// Copies of one CUDA device, for all connections of the process.
//
// Registered memory is copied by the GPU. Small pages go through slots of pinned memory until the
// registrar has come by: threads share the work, so that one copies between its slot and the pool
// while the GPU fills or reads the slots of others. Huge pages are registered within the transfer:
// one thread registers a part while the GPU copies another one, and helpers stage bytes from the
// other end.
//
// Thread-safe.
class device_copy {
 public:
  static constexpr size_t slot_size = size_t{1} << 20;
  static constexpr unsigned slot_count = 16, helper_count_max = 11;
  // Of a transfer that registers memory: one thread's copy runs while the others register. With
  // two threads registration of 1 GiB took longer than its copy.
  static constexpr unsigned register_thread_count = 3, stage_thread_count = 6;
  // Staging a smaller piece takes less time than registering the part that it lies in.
  static constexpr uint64_t register_size_min = uint64_t{4} << 20;
  // Smaller transfers do without stagers.
  static constexpr uint64_t stage_size_min = uint64_t{128} << 20;

  using part = device_part;

  // That of this process for the device; opened once. no_device, no_plugin: the message says why.
  static result<std::shared_ptr<device_copy>> of_process(uint32_t device_index);

  // The device is the calling thread's current one, or this process has copied its memory before.
  static bool is_used(uint32_t device_index);

  // `registration` outlives it.
  static result<std::shared_ptr<device_copy>> create(std::shared_ptr<port::gpu> gpu,
                                                     registrar &registration);
  ~device_copy();

  // What the calling thread's first copy would wait for. The slots and the helpers follow in the
  // background; they take locks of the driver, so where they are not needed at once they may wait
  // until the first transfer has been made.
  void prepare_thread();
  enum class urgency : uint8_t { at_once, later };
  void prepare_in_background(urgency how = urgency::at_once);

  // Nothing is prepared in the background after it returns.
  void finish_preparing();

  // `helpers`: the caller's, for when another transfer has those of the process. `is_staged`: some
  // bytes went through pinned memory. device_lost or what the driver returned, with a message.
  status copy(std::span<const part> parts, copy_direction direction, port::team &helpers,
              bool &is_staged);

  // Has the mapping registered in the background.
  void add(const std::shared_ptr<device_mapping> &mapping);

  // Registers the whole mapping before it returns. Copies of what the GPU refuses stay staged.
  void register_now(const std::shared_ptr<device_mapping> &mapping);

  // Ends mappings of a connection that ends, in the background.
  void release(std::vector<std::shared_ptr<device_mapping>> mappings);

  // Null: another connection of the process prepares memory of this namespace, as long as it keeps
  // what it was given.
  std::shared_ptr<void> claim_namespace(const std::string &url);

  port::gpu &gpu() noexcept {
    return *gpu_;
  }
  port::team &helpers() noexcept {
    return helpers_;
  }

 private:
  // Where the time of one transfer went, over all of its threads.
  struct timing {
    std::atomic<uint64_t> register_ns{0}, direct_ns{0}, staged_ns{0}, slot_ns{0}, direct_size{0},
        staged_size{0};
  };
  // The first failure of several threads.
  class failure_record;

  device_copy(std::shared_ptr<port::gpu> gpu, registrar &registration);
  status make_slots();
  bool is_prepared() const noexcept {
    return is_prepared_.load(std::memory_order_acquire);
  }
  void await_prepared();
  void prepare(urgency how);
  std::byte *take_slot();
  void return_slot(std::byte *slot);
  void warm_up();
  static bool registers(const part &piece) noexcept;
  static std::vector<part> split(std::span<const part> parts, unsigned &staged_count,
                                 unsigned &fresh_count);
  status copy_one(const part &piece, copy_direction direction, timing &times);
  status copy_direct(const part &piece, copy_direction direction, timing &times);
  status copy_staged(const part &piece, copy_direction direction, timing &times);
  status copy_fresh(const part &piece, copy_direction direction, timing &times);
  status copy_shared(std::vector<part> pieces, copy_direction direction, port::team &helpers,
                     timing &times);
  status copy_registering(std::vector<part> pieces, copy_direction direction, port::team &helpers,
                          timing &times);

  std::shared_ptr<port::gpu> const gpu_;
  registrar &registration_;
  int const owner_;  // process id
  std::once_flag slots_once_;
  std::mutex probe_mutex_;
  std::byte *probe_ = nullptr;        // pinned memory of prepare_thread()
  status slots_status_ = status::ok;  // written once, under slots_once_
  std::byte *stage_ = nullptr;
  std::atomic<bool> is_prepared_{false};    // nothing in the background has the helpers
  std::atomic<unsigned> staging_count_{0};  // transfers that want helpers
  port::team helpers_{helper_count_max};
  std::mutex mutex_;  // guards what follows
  std::condition_variable slot_returned_, prepared_, hurried_;
  std::vector<std::byte *> free_slots_;
  std::map<std::string, std::weak_ptr<void>> namespaces_;
  bool is_preparing_ = false;  // or done with that
  bool is_hurried_ = false;    // somebody waits for what is prepared
  std::thread preparing_;
};

// Pinned memory of one connection.
class pinned_buffer {
 public:
  static result<std::unique_ptr<pinned_buffer>> create(std::shared_ptr<device_copy> copies,
                                                       size_t size);
  ~pinned_buffer();
  pinned_buffer(const pinned_buffer &) = delete;
  pinned_buffer &operator=(const pinned_buffer &) = delete;
  std::byte *data() const noexcept {
    return data_;
  }
  size_t size() const noexcept {
    return size_;
  }

 private:
  pinned_buffer(std::shared_ptr<device_copy> copies, std::byte *data, size_t size);

  std::shared_ptr<device_copy> const copies_;
  std::byte *const data_;
  size_t const size_;
};

}  // namespace tanada::pool
