// tests/sim/forwarding_endpoint.hpp: an endpoint over another one. A test overrides the calls that
// it changes.
#pragma once

#include <memory>

#include "seams/fabric/fabric.hpp"

namespace tanada::test {

class forwarding_endpoint : public seams::fabric_endpoint {
 public:
  explicit forwarding_endpoint(std::unique_ptr<seams::fabric_endpoint> below)
      : below_{std::move(below)} {}

  const seams::fabric_properties &properties() const noexcept override {
    return below_->properties();
  }
  const seams::fabric_address &address() const noexcept override {
    return below_->address();
  }
  result<seams::fabric_peer> peer_add(std::span<const std::byte> address) override {
    return below_->peer_add(address);
  }
  status peer_remove(seams::fabric_peer peer) override {
    return below_->peer_remove(peer);
  }
  result<seams::fabric_region> region_register(const seams::fabric_memory &memory,
                                               seams::fabric_access access) override {
    return below_->region_register(memory, access);
  }
  status region_release(seams::fabric_region_id region) override {
    return below_->region_release(region);
  }
  void memory_forget(const std::byte *addr, size_t size) override {
    below_->memory_forget(addr, size);
  }
  status post(const seams::fabric_op &op) override {
    return below_->post(op);
  }
  size_t poll(std::span<seams::fabric_completion> completions) override {
    return below_->poll(completions);
  }
  status wait(uint64_t deadline_ns) override {
    return below_->wait(deadline_ns);
  }
  void wake() noexcept override {
    below_->wake();
  }
  size_t pending_count() const noexcept override {
    return below_->pending_count();
  }
  seams::fabric_counters counters() const noexcept override {
    return below_->counters();
  }

 protected:
  std::unique_ptr<seams::fabric_endpoint> below_;
};

}  // namespace tanada::test
