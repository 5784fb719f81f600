// backends/libfabric/libfabric_domain.hpp: a provider that was found, and libfabric's objects above
// its endpoints.
#pragma once

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "backends/libfabric/libfabric_handles.hpp"
#include "seams/fabric/queue_wait.hpp"

namespace tanada::port {

// Own fabric and domain for each endpoint, so that FI_THREAD_DOMAIN means one thread at a time an
// endpoint. Used by one thread at a time.
class libfabric_domain {
 public:
  // no_plugin if there is no such provider, not_supported if it lacks what we ask for; a message
  // says which.
  static result<std::unique_ptr<libfabric_domain>> open(const libfabric_options &options);

  // An endpoint that is enabled, bound to the queue and the addresses of this domain. `name`: for
  // shm, under which name; empty for the one of the options.
  result<libfabric_handle<fid_ep>> endpoint_open(const std::string &name) const;

  const fi_info &info() const {
    return *info_;
  }
  fid_fabric *fabric() const {
    return fabric_.get();
  }
  fid_domain *domain() const {
    return domain_.get();
  }
  fid_av *addresses() const {
    return addresses_.get();
  }
  fid_cq *queue() const {
    return queue_.get();
  }
  const queue_wait_ops *queue_wait() const {
    return queue_wait_;
  }  // o2g's; nullptr: the provider has none
  int queue_descriptor() const {
    return queue_descriptor_;
  }  // -1: the provider has none
  const fabric_properties &properties() const {
    return properties_;
  }
  void deny_atomics() {
    properties_.has_atomics = false;
  }
  uint64_t write_flags() const {
    return write_flags_;
  }  // that make a completed write a visible one
  bool has_mode(int mr_mode) const {
    return (info_->domain_attr->mr_mode & mr_mode) != 0;
  }
  // shm 1.17 gives the buffer of an atomic that fetches nothing, and says when it is done, back
  // twice.
  bool atomics_must_fetch() const {
    return is_shm_;
  }
  bool is_shm() const {
    return is_shm_;
  }
  bool is_verbs() const {
    return is_verbs_;
  }
  // Connections below, which break one by one: after an error the address is removed and added
  // again.
  bool is_connected() const {
    return is_connected_ || is_o2g_;
  }
  // Removing an address closes its connection, and nothing uses the memory any more. Else
  // operations come to their end.
  bool ends_on_remove() const {
    return is_connected_;
  }
  // Counts what peers have read and written; nullptr: the provider does not tell.
  fid_cntr *changes() const {
    return changes_.get();
  }
  // An operation that is refused ends the connection, too.
  bool ends_on_refusal() const {
    return is_connected_;
  }

 private:
  libfabric_domain() = default;
  status choose(const libfabric_options &options);
  void describe(const libfabric_options &options);
  status open_queue(uint32_t depth);
  status open_objects(const libfabric_options &options);

  // Closed in the reverse order.
  libfabric_handle<fi_info> info_;
  libfabric_handle<fid_fabric> fabric_;
  libfabric_handle<fid_domain> domain_;
  libfabric_handle<fid_av> addresses_;
  libfabric_handle<fid_cq> queue_;
  libfabric_handle<fid_cntr> changes_;
  int queue_descriptor_ = -1;
  const queue_wait_ops *queue_wait_ = nullptr;
  uint64_t write_flags_ = 0;
  bool is_shm_ = false, is_o2g_ = false, is_verbs_ = false, is_connected_ = false;
  fabric_properties properties_;
};

}  // namespace tanada::port
