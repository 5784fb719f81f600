// products/poold/cluster/link_fabric.hpp: the fabric endpoint of a link to another server, through
// which that server reads the bytes of objects that it gets a copy of.
#pragma once

#include <memory>
#include <vector>

#include "core/wire/pool_replica.hpp"
#include "products/pool/client/channel.hpp"
#include "products/pool/client/fabric_link.hpp"

namespace tanada::poold {

/**
 * A part of memory is registered for reading when it is exposed, under a key of its own, and no
 * longer once the exposure has ended.
 *
 * **Thread safety** One thread at a time, which also ends the exposures.
 */
class link_fabric {
 public:
  // Opens an endpoint, and proves over the connection that it belongs to this server.
  // not_supported: the peer has no such fabric. Blocks at most until the deadline (absolute,
  // monotonic_clock).
  static result<std::unique_ptr<link_fabric>> join(pool::channel &connection,
                                                   const seams::fabric_request &request,
                                                   uint64_t deadline_ns);

  // Memory that the peer may read until end(). The caller keeps the memory until then.
  class exposure {
   public:
    explicit exposure(link_fabric &owner) : owner_{owner.self_} {}
    exposure(const exposure &) = delete;
    exposure &operator=(const exposure &) = delete;
    ~exposure() {
      end();
    }
    void end();
    const std::vector<wire::pool::exposed_part> &parts() const noexcept {
      return parts_;
    }

   private:
    friend class link_fabric;
    std::shared_ptr<pool::fabric_link> owner_;
    std::vector<pool::fabric_link::region_use> regions_;
    std::vector<wire::pool::exposed_part> parts_;
  };
  // Null: there are too many parts, or the provider refuses the memory.
  std::shared_ptr<exposure> expose(std::span<const iovec> parts);

  // Whether the peer's reads need serve().
  bool needs_service() const {
    return self_.use_count() > 1 && self_->path() != seams::fabric_path::rdma;
  }
  void serve(uint64_t deadline_ns) {
    self_->serve(deadline_ns);
  }

 private:
  explicit link_fabric(std::unique_ptr<pool::fabric_link> endpoint) : self_{std::move(endpoint)} {}

  std::shared_ptr<pool::fabric_link> self_;  // exposures keep it open
  bool is_refused_ = false;                  // the provider has refused memory
};

}  // namespace tanada::poold
