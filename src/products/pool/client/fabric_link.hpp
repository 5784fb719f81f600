// products/pool/client/fabric_link.hpp: gives the daemon access to this process's memory over a
// fabric.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "core/wire/pool.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::pool {

// An endpoint, and the memory registered with it. Used by one thread at a time.
class fabric_link {
 public:
  // Returns `no_plugin` or libfabric's error.
  static result<std::unique_ptr<fabric_link>> open(const seams::fabric_request &request);

  std::string address() const;
  seams::fabric_path path() const {
    return endpoint_->properties().path;
  }
  // As far as is known: it becomes false after acquire_region() or register_memory() returned
  // `not_supported`, and bytes must be staged from then on.
  bool reaches_devices() const {
    return endpoint_->properties().has_cuda && !refuses_devices_;
  }

  // A region that contains the given memory: a registered one, or a new one, which the caller
  // releases.
  struct region_use {
    seams::fabric_remote remote;
    uint64_t offset = 0;  // of the memory in the region
    // The region to release; none: it stays registered.
    seams::fabric_region_id id = seams::no_fabric_region;
  };
  result<region_use> acquire_region(std::byte *addr,
                                    uint64_t size,
                                    bool on_device,
                                    bool to_be_read);
  void release_region(const region_use &region);

  // Registers memory for all transfers until it is unregistered. `exists`: it overlaps other
  // registered memory.
  status register_memory(std::byte *addr, uint64_t size, bool on_device);
  status unregister_memory(std::byte *addr);
  bool is_registered(std::byte *addr, uint64_t size) const {
    return find_registered(addr, size) != registered_.end();
  }
  // Unregisters the registered memory that contains this address, if any.
  void unregister_containing(std::byte *addr);

  // Waits for the secret that the daemon sent to this endpoint under the tag. The caller returns it
  // over the stream. `timed_out`: no message was received.
  result<wire::pool::bytes32> await_secret(const wire::pool::bytes32 &tag, uint64_t deadline_ns);

  // Makes progress until the deadline, while the daemon reads and writes this memory. Received
  // messages are dropped, so that they do not accumulate.
  void serve(uint64_t deadline_ns);

 private:
  struct registered_region {
    uint64_t size;
    seams::fabric_region region;
  };
  using regions = std::map<std::byte *, registered_region>;
  // The registered memory that contains the given one, or the end.
  regions::const_iterator find_registered(std::byte *addr, uint64_t size) const;
  explicit fabric_link(std::unique_ptr<seams::fabric_endpoint> endpoint)
      : endpoint_{std::move(endpoint)} {}
  void receive();
  result<seams::fabric_region> open_region(std::byte *addr,
                                           uint64_t size,
                                           bool on_device,
                                           seams::fabric_access access);

  bool refuses_devices_ = false;

  std::array<std::byte, wire::pool::fabric_challenge_size>
      message_{};                           // used by the endpoint while is_receiving_
  wire::pool::fabric_challenge challenge_;  // the last one received
  status received_ = status::again;         // `again`: no message was received in the last serve()
  bool is_receiving_ = false;
  std::unique_ptr<seams::fabric_endpoint> endpoint_;
  regions registered_;
};

}  // namespace tanada::pool
