// products/pool/client/device_copy.hpp: copies between device memory and the pool's memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/pool/client/copy_queue.hpp"
#include "products/pool/client/device_mapping.hpp"
#include "products/pool/client/registrar.hpp"
#include "seams/gpu/gpu.hpp"
#include "seams/os/team.hpp"

namespace tanada::pool {

enum class copy_direction : uint8_t { to_host, to_device };

// Copies of one CUDA device, for all connections of the process.
//
// The GPU copies registered memory directly. Small pages are staged in slots of pinned memory until
// the registrar has registered them. Threads share that work: one copies between its slot and the
// pool while the GPU fills or reads the slots of others. Huge pages are registered within the
// transfer. One thread registers a part while the GPU copies another one, and helpers stage bytes
// from the other end.
//
// Thread-safe.
class device_copy {
 public:
  static constexpr size_t slot_size = size_t{1} << 20;
  static constexpr unsigned slot_count = 16, helper_count_max = 11;
  static_assert(slot_count > helper_count_max, "each thread of a transfer gets a slot");
  // Threads of a transfer that registers memory: one thread's copy runs while the others register.
  // With two threads, registering 1 GiB took longer than copying it.
  static constexpr unsigned register_thread_count = 3, stage_thread_count = 6;
  static_assert(register_thread_count + stage_thread_count <= helper_count_max + 1);
  // Staging a smaller piece takes less time than registering the part that it lies in.
  static constexpr uint64_t register_size_min = uint64_t{4} << 20;
  static_assert(slot_size <= register_size_min && register_size_min <= device_mapping::part_size);
  // Smaller transfers use no staging threads.
  static constexpr uint64_t stage_size_min = uint64_t{128} << 20;

  using part = device_part;

  // Returns the process's copies for the device, which are opened once. `no_device`, `no_plugin`:
  // the message has the reason.
  static result<std::shared_ptr<device_copy>> for_process(uint32_t device_index);

  // The device is the calling thread's current one, or this process has copied its memory before.
  static bool is_used(uint32_t device_index);

  // `registration` outlives the copies.
  static result<std::shared_ptr<device_copy>> create(std::shared_ptr<seams::gpu> gpu,
                                                     registrar &registration);
  ~device_copy();

  // Prepares what the calling thread's first copy would wait for. The slots and the helpers are
  // prepared in the background. This takes locks of the driver. If they are not needed at once, it
  // may wait until the first transfer was made.
  void prepare_thread();
  enum class urgency : uint8_t { at_once, later };
  void prepare_in_background(urgency when = urgency::at_once);

  // No background preparation is running after it returns.
  void finish_preparing();

  // `helpers`: the caller's, used while another transfer occupies those of the process.
  // `is_staged`: some bytes were copied through pinned memory. Returns `device_lost` or the
  // driver's error, with a message.
  status copy(std::span<const part> parts,
              copy_direction direction,
              seams::team &helpers,
              bool &is_staged);

  // Registers the mapping in the background.
  void add(const std::shared_ptr<device_mapping> &mapping);

  // Registers the whole mapping before it returns. Parts that the GPU refuses stay staged.
  void register_now(const std::shared_ptr<device_mapping> &mapping);

  // Releases the mappings of a connection that ends, in the background.
  void release(std::vector<std::shared_ptr<device_mapping>> mappings);

  // Claims the preparation of a namespace's memory, as long as the caller keeps the result. Null:
  // another connection of the process has claimed it.
  std::shared_ptr<void> claim_namespace(const std::string &url);

  seams::gpu &gpu() noexcept {
    return *gpu_;
  }
  seams::team &helpers() noexcept {
    return helpers_;
  }

 private:
  // The time that the steps of one transfer took, summed over all of its threads.
  struct timing {
    std::atomic<uint64_t> register_ns{0}, direct_ns{0}, staged_ns{0}, slot_ns{0}, direct_size{0},
        staged_size{0};
  };
  // The first failure of several threads.
  class failure_record;

  device_copy(std::shared_ptr<seams::gpu> gpu, registrar &registration);
  status make_slots();
  bool is_prepared() const noexcept {
    return is_prepared_.load(std::memory_order_acquire);
  }
  void await_prepared();
  void prepare(urgency when);
  std::byte *take_slot();
  void return_slot(std::byte *slot);
  void warm_up();
  static bool should_register(const part &piece) noexcept;
  // The pieces of a transfer, and how many of them are staged or not registered yet.
  struct piece_list {
    std::vector<part> pieces;
    unsigned staged_count = 0, unregistered_count = 0;
  };
  static piece_list split(std::span<const part> parts);
  status copy_pieces(const std::vector<part> &pieces, copy_direction direction, timing &times);
  status copy_with_helpers(piece_list list,
                           copy_direction direction,
                           seams::team &helpers,
                           timing &times);
  static void log_transfer(const timing &times, uint64_t duration_ns);
  status copy_one(const part &piece, copy_direction direction, timing &times);
  status copy_direct(const part &piece, copy_direction direction, timing &times);
  status copy_staged(const part &piece, copy_direction direction, timing &times);
  status copy_unregistered(const part &piece, copy_direction direction, timing &times);
  status copy_shared(std::vector<part> pieces,
                     copy_direction direction,
                     seams::team &helpers,
                     timing &times);
  status copy_registering(std::vector<part> pieces,
                          copy_direction direction,
                          seams::team &helpers,
                          timing &times);

  std::shared_ptr<seams::gpu> const gpu_;
  registrar &registration_;
  int const owner_;  // process id
  std::once_flag slots_once_;
  mutex probe_mutex_;
  std::byte *probe_ TND_GUARDED_BY(probe_mutex_) = nullptr;  // pinned memory of prepare_thread()
  status slots_status_ = status::ok;                         // written once, under slots_once_
  std::byte *stage_ = nullptr;
  std::atomic<bool> is_prepared_{false};    // no background thread uses the helpers
  std::atomic<unsigned> staging_count_{0};  // transfers that need helpers
  seams::team helpers_{helper_count_max};
  mutex mutex_;
  condition_variable slot_returned_, prepared_, urgent_;
  std::vector<std::byte *> free_slots_ TND_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<void>> namespaces_ TND_GUARDED_BY(mutex_);
  bool is_preparing_ TND_GUARDED_BY(mutex_) = false;  // or already done
  bool is_urgent_ TND_GUARDED_BY(mutex_) = false;     // a transfer waits for the preparation
  std::thread preparing_ TND_GUARDED_BY(mutex_);
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
