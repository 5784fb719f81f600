// tests/sim/pgas_endpoint.hpp: an endpoint of the simulated fabric between a lane and its world.
// Waits take little of the world's time, so that other programs run, and bugs are planted here.
#pragma once

#include <deque>

#include "sim/forwarding_endpoint.hpp"
#include "sim/pgas_harness.hpp"

namespace tanada::test {

struct pgas_run::endpoint final : forwarding_endpoint {
  endpoint(std::unique_ptr<seams::fabric_endpoint> below, sim::world &world, pgas_plant plant)
      : forwarding_endpoint{std::move(below)}, world_{world}, plant_{plant} {}

  status post(const seams::fabric_op &op) override {
    auto sent = op;
    bool const is_write = op.kind == seams::fabric_op_kind::write;
    bool const strikes = world_.random.chance(3);
    if (plant_ == pgas_plant::early_completion && is_write && world_.random.chance(20)) {
      // Reports completion immediately, before the operation is carried out.
      sent.op_id = nobody;
      sent.is_copied = sent.size <= properties().copied_size_max;
      if (!sent.is_copied)
        return below_->post(op);
      TND_TRY(below_->post(sent));
      early_.push_back({.op_id = op.op_id,
                        .size = op.size,
                        .peer = op.peer,
                        .path = seams::fabric_path::simulated});
      return status::ok;
    }
    if (plant_ == pgas_plant::torn_atomic && op.kind == seams::fabric_op_kind::atomic &&
        op.atomic == seams::fabric_atomic::add && op.addr == nullptr && !op.returns_value &&
        strikes) {
      sent.atomic = seams::fabric_atomic::swap;  // a store of the old value plus one
    }
    status const code = below_->post(sent);
    if (code == status::ok && plant_ == pgas_plant::done_twice &&
        op.kind == seams::fabric_op_kind::atomic && strikes) {
      sent.op_id = nobody;
      (void)below_->post(sent);
    }
    return code;
  }

  size_t poll(std::span<seams::fabric_completion> completions) override {
    if (!early_.empty()) {
      completions[0] = early_.front();
      early_.pop_front();
      return 1;
    }
    size_t const count = below_->poll(completions);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
      auto done = completions[i];
      if (done.op_id == nobody)
        continue;
      if (plant_ == pgas_plant::silent_completion && done.settled && world_.random.chance(1))
        continue;
      if (plant_ == pgas_plant::hidden_failure && done.settled)
        done.code = status::ok;
      completions[kept++] = done;
    }
    return kept;
  }

  status wait(uint64_t deadline_ns) override {
    return below_->wait(std::min(deadline_ns, world_.now_ns() + 100'000));
  }

 private:
  static constexpr uint64_t nobody = ~uint64_t{0};
  sim::world &world_;
  pgas_plant const plant_;
  std::deque<seams::fabric_completion> early_;
};

}  // namespace tanada::test
