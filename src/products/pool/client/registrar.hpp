// products/pool/client/registrar.hpp: registers the pool's pages with a GPU in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "products/pool/client/device_mapping.hpp"

namespace tanada::pool {

// One thread that registers mappings part by part. It lets transfers go first: registering takes
// locks of the driver that their copies need. It waits until none has run for `pause`, but no
// longer than `patience` for each part.
//
// Thread-safe.
class registrar {
 public:
  static constexpr std::chrono::milliseconds pause{2}, patience{100};

  registrar() = default;
  ~registrar() {
    stop();
  }
  registrar(const registrar &) = delete;
  registrar &operator=(const registrar &) = delete;

  // Registers all of the mapping, unless somebody does so already. Returns at once.
  void add(std::shared_ptr<device_mapping> mapping, std::shared_ptr<port::gpu> gpu);

  // Ends the mappings that nobody else uses, when no transfer is under way: to unregister memory
  // takes the same locks.
  void release(std::vector<std::shared_ptr<device_mapping>> mappings);

  // No part is registered after it returns, and what was released is unregistered.
  void stop();

  // While it lives the registrar waits.
  class transfer {
   public:
    explicit transfer(registrar &of) : of_{of} {
      of_.begin_transfer();
    }
    ~transfer() {
      of_.end_transfer();
    }
    transfer(const transfer &) = delete;
    transfer &operator=(const transfer &) = delete;

   private:
    registrar &of_;
  };

 private:
  struct job {
    std::shared_ptr<device_mapping> mapping;
    std::shared_ptr<port::gpu> gpu;
  };
  void begin_transfer();
  void end_transfer();
  void serve();
  bool await_pause();
  void register_all(const job &next);
  static bool is_abandoned(device_mapping &mapping);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<job> jobs_;
  std::deque<std::shared_ptr<device_mapping>> released_;
  unsigned transfer_count_ = 0;
  std::chrono::steady_clock::time_point last_end_{};  // of a transfer
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace tanada::pool
