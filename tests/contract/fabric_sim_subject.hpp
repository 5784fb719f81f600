// tests/contract/fabric_sim_subject.hpp: the simulated fabric under the fabric contract, with the
// faults of its choice.
#pragma once

#include "contract/fabric_subject.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"

namespace tanada::contract {

class fabric_sim_subject final : public fabric_subject {
 public:
  // `options` but for what a test asks for.
  explicit fabric_sim_subject(sim::fabric_faults faults = {},
                              sim::fabric_options options = {},
                              uint64_t seed = 1)
      : world_{seed}, fabric_{world_, faults}, options_{options} {}

  result<std::unique_ptr<seams::fabric_endpoint>> open(
      const fabric_subject_options &options) override {
    auto own = options_;
    own.depth = options.depth;
    own.cache = options.cache;
    own.has_cuda = options.cuda;
    return fabric_.open("node" + std::to_string(count_++), own);
  }
  std::unique_ptr<fabric_victim> victim() override {
    auto made = std::make_unique<process>(*this);
    process_ = made.get();
    return made;
  }
  seams::clock &time() override {
    return clock_;
  }
  void idle() override {
    if (process_ != nullptr)
      process_->serve();
    if (!world_.step())
      world_.advance(1'000);  // nothing is under way: time passes all the same
  }
  bool threads() const override {
    return false;
  }

 private:
  class process final : public fabric_victim {
   public:
    explicit process(fabric_sim_subject &owner) : owner_{owner} {
      restart();
    }
    ~process() override {
      owner_.process_ = nullptr;
    }
    fabric_peer_card card() override {
      return {endpoint_->address(), remote_};
    }
    void kill() override {
      owner_.fabric_.crash("victim");
      endpoint_.reset();
    }
    void stop() override {
      stopped_ = true;
    }
    void resume() override {
      stopped_ = false;
    }
    void restart() override {
      stopped_ = false;
      endpoint_ = std::move(owner_.fabric_.open("victim")).value();
      auto region = endpoint_->region_register({.addr = memory_.data(), .size = memory_.size()},
                                               {true, true});
      remote_ = region.value().remote;
    }
    bool keeps_address() const override {
      return true;
    }
    void serve() {
      seams::fabric_completion done[4];
      if (endpoint_ && !stopped_)
        (void)endpoint_->poll(done);
    }

   private:
    fabric_sim_subject &owner_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20, std::byte{0x5a});
    std::unique_ptr<seams::fabric_endpoint> endpoint_;
    seams::fabric_remote remote_{};
    bool stopped_ = false;
  };

  sim::world world_;
  sim::clock clock_{world_};
  sim::fabric fabric_;
  sim::fabric_options options_;
  process *process_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace tanada::contract
