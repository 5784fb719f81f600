// backends/libfabric/libfabric_queue.hpp: fabric_endpoint over libfabric, the class;
// libfabric_endpoint.hpp is what callers use.
#pragma once

#include <atomic>
#include <set>

#include "backends/libfabric/libfabric_parts.hpp"
#include "backends/libfabric/libfabric_peers.hpp"
#include "backends/libfabric/libfabric_regions.hpp"
#include "seams/fabric/op_table.hpp"

namespace tanada::port {

// What libfabric hands back with a completion. The first member is its to use while the operation
// is out.
struct libfabric_context {
  fi_context2 provider;
  // Of an atomic of one element, as the element lies in memory; registered where the provider asks
  // for that.
  std::byte operand[8], compare[8], result[8];
};

// Bytes of a vector that the provider takes at once; 0: it lacks one of the atomics that a fabric
// has.
size_t libfabric_vector_size_max(fid_ep *endpoint);

class libfabric_endpoint final : public fabric_endpoint {
 public:
  libfabric_endpoint(std::unique_ptr<libfabric_domain> domain, const libfabric_options &options);
  ~libfabric_endpoint() override;
  status open();

  const fabric_properties &properties() const noexcept override {
    return domain_->properties();
  }
  const fabric_address &address() const noexcept override {
    return address_;
  }
  result<fabric_peer> peer_add(std::span<const std::byte> address) override;
  status peer_remove(fabric_peer peer) override;
  result<fabric_region> region_register(const fabric_memory &memory, fabric_access access) override;
  status region_release(fabric_region_id region) override;
  void memory_forget(const std::byte *addr, size_t size) override;
  status post(const fabric_op &op) override;
  size_t poll(std::span<fabric_completion> completions) override;
  status wait(uint64_t deadline_ns) override;
  status wait_for_change(uint64_t deadline_ns) override;
  void wake() noexcept override;
  size_t pending_count() const noexcept override {
    return ops_.pending_count();
  }
  fabric_counters counters() const noexcept override {
    return ops_.counters();
  }

 private:
  // What an operation has beside its slot.
  struct flight {
    libfabric_regions::hold held;
    std::shared_ptr<shm_lane> lane;
    // Of a vector, which is posted from its first part on, and at the head of its peer's queue
    // until its last.
    size_t handed = 0;  // bytes
    uint32_t parts_out = 0;
    bool is_partial = false;  // still in the queue
    status failed = status::ok;
  };

  void sleep(uint64_t now_ns, uint64_t end_ns, uint64_t look_ns, bool &rests);
  status own_register(libfabric_handle<fid_mr> &into, std::byte *addr, size_t size);

  // libfabric_post.cc: towards the network.
  std::deque<uint32_t> &waiting_of(const fabric_op &op);
  bool submit(uint32_t index);
  ssize_t hand_over(uint32_t index, libfabric_peer *peer);
  ssize_t hand_over_transfer(uint32_t index, libfabric_peer &peer);
  status lane_open(libfabric_peer &peer);
  void submit_waiting();
  void copy_source(uint32_t index);

  // libfabric_atomic.cc
  ssize_t hand_over_atomic(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  ssize_t hand_over_element(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  ssize_t hand_over_vector(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  bool submit_vector(uint32_t index, libfabric_peer &peer);
  void part_settle(libfabric_part &part, status code);
  bool vector_stop(uint32_t index, status code);
  void parts_forget(uint32_t index);
  uint64_t value_of(uint32_t index);

  // libfabric_reap.cc: from it.
  void progress();
  void reap_queue();
  void reap_error();
  uint32_t index_of(const void *context);
  void settle(uint32_t index, status code, uint64_t size = 0, fi_addr_t source = FI_ADDR_NOTAVAIL);
  void expire();
  void check_processes();
  void peer_gone(libfabric_peer &peer);
  void connection_lost(libfabric_peer &peer);
  void mend_connections();
  void settle_out(fabric_peer peer, status code);
  void drop_waiting(libfabric_peer &peer, status code);
  void forget_removed();

  libfabric_context &context_of(uint32_t index) {
    return contexts_[2 * index + ops_[index].generation % 2];
  }

  clock &time_;
  registration_cache_limits const cache_limits_;
  std::unique_ptr<libfabric_domain> domain_;
  fabric_op_table ops_;
  // Two a slot, in turns: what libfabric says late about the operation before finds nobody.
  std::vector<libfabric_context> contexts_;
  std::vector<flight> flights_;  // by slot
  libfabric_parts parts_;
  size_t vector_size_max_ = 0;              // bytes of a part
  std::unique_ptr<std::byte[]> discarded_;  // what vectors fetch where they must
  std::unique_ptr<std::byte[]>
      copies_;  // by slot, copied_size_max each: sources that the caller has back
  // Endpoints go before the registrations and the peers: libfabric_endpoint() closes them first.
  std::unique_ptr<libfabric_regions> regions_;
  libfabric_handle<fid_mr> contexts_region_, copies_region_;
  libfabric_peers peers_;
  libfabric_handle<fid_ep> endpoint_;
  fabric_address address_;
  std::deque<uint32_t> receives_waiting_;
  std::set<fabric_peer> backlog_;  // peers with operations waiting
  std::set<fabric_peer> broken_;   // peers whose connection is
  std::set<fabric_peer> leaving_;  // removed, with operations that have not settled
  uint64_t processes_checked_ns_ = 0;
  std::atomic<bool> woken_{false};
  uint64_t changes_seen_ = 0;  // of what peers have done
  int wake_descriptor_ = -1;   // ends a sleep; what counts is woken_
};

}  // namespace tanada::port
