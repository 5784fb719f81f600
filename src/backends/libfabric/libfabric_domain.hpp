// backends/libfabric/libfabric_domain.hpp: a chosen provider, and the libfabric objects that its
// endpoints use.
#pragma once

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "backends/libfabric/libfabric_handles.hpp"
#include "seams/fabric/queue_wait.hpp"

namespace tanada::backends {

// Each endpoint has its own fabric and domain, so FI_THREAD_DOMAIN means one thread at a time for
// each endpoint. Used by one thread at a time.
class libfabric_domain {
 public:
  // no_plugin: there is no such provider. not_supported: the provider lacks a required capability.
  // The message gives details.
  static result<std::unique_ptr<libfabric_domain>> open(const libfabric_options &options);

  // An enabled endpoint, bound to the queue and the addresses of this domain. `name` is the
  // endpoint's name for shm; if empty, the name from the options.
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
  const seams::queue_wait_ops *queue_wait() const {
    return queue_wait_;
  }  // o2g's; nullptr: the provider has none
  int queue_descriptor() const {
    return queue_descriptor_;
  }  // -1: the provider has none
  const seams::fabric_properties &properties() const {
    return properties_;
  }
  void deny_atomics() {
    properties_.has_atomics = false;
  }
  uint64_t write_flags() const {
    return write_flags_;
  }  // make a write complete only when it is visible
  bool has_mode(int mr_mode) const {
    return (info_->domain_attr->mr_mode & mr_mode) != 0;
  }
  // shm 1.17 returns the buffer of a non-fetching atomic twice if a completion is requested.
  bool atomics_must_fetch() const {
    return is_shm_;
  }
  bool is_shm() const {
    return is_shm_;
  }
  bool is_verbs() const {
    return is_verbs_;
  }
  // The provider uses connections that fail one by one. After an error the address is removed and
  // inserted again.
  bool is_connected() const {
    return is_connected_ || is_o2g_;
  }
  // Removing an address closes its connection, after which nothing uses the memory. With other
  // providers operations complete by themselves.
  bool ends_on_remove() const {
    return is_connected_;
  }
  // Counts reads and writes by peers. nullptr: the provider has no such counter.
  fid_cntr *change_counter() const {
    return change_counter_.get();
  }
  // A refused operation also ends the connection.
  bool ends_on_refusal() const {
    return is_connected_;
  }

 private:
  libfabric_domain() = default;
  status choose(const libfabric_options &options);
  void describe(const libfabric_options &options);
  status open_queue(uint32_t depth);
  status open_objects(const libfabric_options &options);

  // Closed in reverse order.
  libfabric_handle<fi_info> info_;
  libfabric_handle<fid_fabric> fabric_;
  libfabric_handle<fid_domain> domain_;
  libfabric_handle<fid_av> addresses_;
  libfabric_handle<fid_cq> queue_;
  libfabric_handle<fid_cntr> change_counter_;
  int queue_descriptor_ = -1;
  const seams::queue_wait_ops *queue_wait_ = nullptr;
  uint64_t write_flags_ = 0;
  bool is_shm_ = false, is_o2g_ = false, is_verbs_ = false, is_connected_ = false;
  seams::fabric_properties properties_;
};

}  // namespace tanada::backends
