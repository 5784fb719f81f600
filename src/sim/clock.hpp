// sim/clock.hpp: seams::clock with the time of a world.
#pragma once

#include "seams/clock/clock.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

class clock final : public seams::clock {
 public:
  explicit clock(world &owner) : world_{owner} {}
  uint64_t now_ns() noexcept override {
    return world_.now_ns();
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    world_.advance(duration_ns);
  }

 private:
  world &world_;
};

}  // namespace tanada::sim
