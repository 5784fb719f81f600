// tests/contract/store_sim_subject.hpp: the simulated store without faults, under the store
// contract.
#pragma once

#include "contract/store_subject.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::contract {

class sim_subject final : public store_subject {
 public:
  seams::store &store() override {
    return store_;
  }
  std::string url(const std::string &name) override {
    return "sim://" + name;
  }
  seams::clock &time() override {
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

}  // namespace tanada::contract
