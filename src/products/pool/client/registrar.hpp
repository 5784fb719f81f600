// products/pool/client/registrar.hpp: registers the pool's pages with a GPU in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/pool/client/device_mapping.hpp"

namespace tanada::pool {

// A thread that registers mappings part by part. Transfers have priority, because registering takes
// locks of the driver that their copies need. Before each part, the thread waits until no transfer
// has run for `pause`, but no longer than `wait_max`.
//
// Thread-safe.
class registrar {
 public:
  static constexpr std::chrono::milliseconds pause{2}, wait_max{100};

  registrar() = default;
  ~registrar() {
    stop();
  }
  registrar(const registrar &) = delete;
  registrar &operator=(const registrar &) = delete;

  // Registers all of the mapping, unless another caller has claimed that already. Returns at once.
  void add(std::shared_ptr<device_mapping> mapping, std::shared_ptr<seams::gpu> gpu);

  // Releases the mappings that have no other users, while no transfer is running: unregistering
  // memory takes the same locks.
  void release(std::vector<std::shared_ptr<device_mapping>> mappings);

  // After it returns, no part is being registered, and all released mappings are unregistered.
  void stop();

  // The registrar pauses while such an object exists.
  class transfer {
   public:
    explicit transfer(registrar &target) : registrar_{target} {
      registrar_.begin_transfer();
    }
    ~transfer() {
      registrar_.end_transfer();
    }
    transfer(const transfer &) = delete;
    transfer &operator=(const transfer &) = delete;

   private:
    registrar &registrar_;
  };

 private:
  struct job {
    std::shared_ptr<device_mapping> mapping;
    std::shared_ptr<seams::gpu> gpu;
  };
  void begin_transfer();
  void end_transfer();
  void run();
  bool await_pause();
  void register_all(const job &next);
  static bool is_abandoned(device_mapping &mapping);

  mutex mutex_;
  condition_variable changed_;
  std::deque<job> jobs_ TND_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<device_mapping>> released_ TND_GUARDED_BY(mutex_);
  unsigned transfer_count_ TND_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point last_end_ TND_GUARDED_BY(mutex_){};  // of a transfer
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started under the mutex, unless the registrar is stopping
};

}  // namespace tanada::pool
