// tests/sim/resting_endpoint.hpp: an endpoint for threads that share a world.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "sim/forwarding_endpoint.hpp"

namespace tanada::test {

// A wait during which the other threads use the world.
class resting_endpoint final : public forwarding_endpoint {
 public:
  using forwarding_endpoint::forwarding_endpoint;
  status wait(uint64_t) override {
    for (uint32_t i = 0; i < 10; i++) {
      if (is_woken_.exchange(false))
        return status::interrupted;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return status::timed_out;
  }
  void wake() noexcept override {
    is_woken_ = true;
  }

 private:
  std::atomic<bool> is_woken_{false};
};

}  // namespace tanada::test
