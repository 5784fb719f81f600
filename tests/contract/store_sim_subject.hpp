// tests/contract/store_sim_subject.hpp: the simulated store without faults, under the store
// contract.
#pragma once

#include "contract/store_subject.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::port {

class sim_subject final : public store_subject {
 public:
  port::store &store() override {
    return store_;
  }
  std::string url(const std::string &name) override {
    return "sim://" + name;
  }
  clock &time() override {
    return clock_;
  }
  void idle() override {
    world_.step();
  }

 private:
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store store_{world_};
};

}  // namespace tanada::port
