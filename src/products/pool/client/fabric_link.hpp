// products/pool/client/fabric_link.hpp: this process's memory, open to the daemon over a fabric.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "core/wire/pool.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::pool {

// An endpoint and what is registered with it. Used by one thread at a time.
class fabric_link {
 public:
  // no_plugin, or what libfabric says.
  static result<std::unique_ptr<fabric_link>> open(const std::string &provider);

  std::string address() const;
  port::fabric_path path() const {
    return endpoint_->properties().path;
  }
  // As far as is known: not_supported of lend() and keep() is the end of it, and bytes are to be
  // staged.
  bool reaches_devices() const {
    return endpoint_->properties().has_cuda && !refuses_devices_;
  }

  // A region that holds this memory: one that was registered, or a new one, which the caller lets
  // go.
  struct loan {
    port::fabric_remote remote;
    uint64_t offset = 0;                                 // of the memory in it
    port::fabric_region_id id = port::no_fabric_region;  // to let go; none: it stays
  };
  result<loan> lend(std::byte *addr, uint64_t size, bool on_device, bool to_be_read);
  void let_go(const loan &which);

  // Registered for all transfers until it is forgotten. exists: it overlaps with other memory.
  status keep(std::byte *addr, uint64_t size, bool on_device);
  status forget(std::byte *addr);
  void forget_holding(std::byte *addr);  // what was kept and has this address in it, if anything

  // What the daemon has sent to this endpoint under the tag, to be handed back over the stream.
  // timed_out: nothing came.
  result<wire::pool::bytes32> await_secret(const wire::pool::bytes32 &tag, uint64_t deadline_ns);

  // Serve the daemon, which reads and writes here, for a while. Messages are dropped, so that none
  // pile up.
  void serve(uint64_t deadline_ns);

 private:
  struct kept {
    uint64_t size;
    port::fabric_region region;
  };
  explicit fabric_link(std::unique_ptr<port::fabric_endpoint> endpoint)
      : endpoint_{std::move(endpoint)} {}
  void receive();
  result<port::fabric_region> open_region(std::byte *addr, uint64_t size, bool on_device,
                                          port::fabric_access access);

  bool refuses_devices_ = false;

  std::array<std::byte, wire::pool::fabric_challenge_size>
      message_{};                           // the endpoint's while is_receiving_
  wire::pool::fabric_challenge challenge_;  // that came last
  status received_ = status::again;         // again: nothing came in the last serve()
  bool is_receiving_ = false;
  std::unique_ptr<port::fabric_endpoint> endpoint_;
  std::map<std::byte *, kept> kept_;
};

}  // namespace tanada::pool
