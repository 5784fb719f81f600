// backends/libfabric/libfabric_queue.hpp: the class libfabric_endpoint. Callers use
// libfabric_endpoint.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <set>

#include "backends/libfabric/libfabric_parts.hpp"
#include "backends/libfabric/libfabric_peers.hpp"
#include "backends/libfabric/libfabric_regions.hpp"
#include "core/base/assert.hpp"
#include "seams/fabric/op_table.hpp"

namespace tanada::backends {

// The context that libfabric returns with a completion. libfabric uses the first member while the
// operation is in flight.
struct libfabric_context {
  fi_context2 provider;
  // The operands of an atomic of one element, in its memory format; registered if the provider
  // requires it.
  std::byte operand[8], compare[8], result[8];
};
static_assert(offsetof(libfabric_context, provider) == 0);

// The bytes of a vector that the provider accepts at once. 0: it lacks an atomic that a fabric
// needs.
size_t libfabric_vector_size_max(fid_ep *endpoint);

class libfabric_endpoint final : public seams::fabric_endpoint {
 public:
  libfabric_endpoint(std::unique_ptr<libfabric_domain> domain, const libfabric_options &options);
  ~libfabric_endpoint() override;
  status open();

  const seams::fabric_properties &properties() const noexcept override {
    return domain_->properties();
  }
  const seams::fabric_address &address() const noexcept override {
    return address_;
  }
  result<seams::fabric_peer> peer_add(std::span<const std::byte> address) override;
  status peer_remove(seams::fabric_peer peer) override;
  result<seams::fabric_region> region_register(const seams::fabric_memory &memory,
                                               seams::fabric_access access) override;
  status region_release(seams::fabric_region_id region) override;
  void memory_forget(const std::byte *addr, size_t size) override;
  status post(const seams::fabric_op &op) override;
  size_t poll(std::span<seams::fabric_completion> completions) override;
  status wait(uint64_t deadline_ns) override;
  status wait_for_change(uint64_t deadline_ns) override;
  void wake() noexcept override;
  size_t pending_count() const noexcept override {
    return ops_.pending_count();
  }
  seams::fabric_counters counters() const noexcept override {
    return ops_.counters();
  }

 private:
  // The state of an operation in addition to its slot.
  struct flight {
    libfabric_regions::hold held;
    std::shared_ptr<shm_lane> lane;
    // For a vector: it counts as posted from its first part on, and stays at the head of its peer's
    // queue until its last part is posted.
    size_t posted_size = 0;  // bytes
    uint32_t parts_in_flight = 0;
    bool is_partial = false;  // still in the queue
    status error = status::ok;
  };

  void sleep(uint64_t now_ns, uint64_t end_ns, uint64_t poll_interval_ns, bool &is_resting);
  status register_internal(libfabric_handle<fid_mr> &target, std::byte *addr, size_t size);

  // libfabric_post.cc: posting to the network.
  std::deque<uint32_t> &waiting_queue(const seams::fabric_op &op);
  bool submit(uint32_t index);
  ssize_t post_operation(uint32_t index, libfabric_peer *peer);
  ssize_t post_transfer(uint32_t index, libfabric_peer &peer);
  ssize_t choose_lane(uint32_t index, libfabric_peer &peer, fid_ep *&endpoint);
  status lane_open(libfabric_peer &peer);
  void submit_waiting();
  void copy_source(uint32_t index);

  // libfabric_atomic.cc
  ssize_t post_atomic(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  ssize_t post_element(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  ssize_t post_vector(fid_ep *endpoint, uint32_t index, libfabric_peer &peer);
  bool submit_vector(uint32_t index, libfabric_peer &peer);
  void part_settle(libfabric_part &part, status code);
  bool vector_stop(uint32_t index, status code);
  void orphan_parts(uint32_t index);
  uint64_t value_of(uint32_t index);

  // libfabric_reap.cc: completions.
  void progress();
  void reap_queue();
  void reap_error();
  uint32_t index_of(const void *context);
  void settle(uint32_t index, status code, uint64_t size = 0, fi_addr_t source = FI_ADDR_NOTAVAIL);
  status status_of_error(const fi_cq_err_entry &error, const seams::fabric_op &op);
  void expire();
  std::vector<uint32_t> take_expired(uint64_t now_ns);
  void abandon(uint32_t index);
  void check_processes();
  void fail_dead_peer(libfabric_peer &peer);
  void mark_broken(libfabric_peer &peer);
  void reconnect_peers();
  void settle_in_flight(seams::fabric_peer peer, status code);
  void drop_waiting(libfabric_peer &peer, status code);
  void erase_removed();

  libfabric_context &context_of(uint32_t index) {
    TND_ASSERT(index < ops_.depth());
    return contexts_[2 * index + ops_[index].generation % 2];
  }

  seams::clock &time_;
  seams::registration_cache_limits const cache_limits_;
  std::unique_ptr<libfabric_domain> domain_;
  seams::fabric_op_table ops_;
  // Two for each slot, used alternately: a late completion of the previous operation matches no
  // operation.
  std::vector<libfabric_context> contexts_;
  std::vector<flight> flights_;  // by slot
  libfabric_parts parts_;
  size_t vector_size_max_ = 0;              // bytes of a part
  std::unique_ptr<std::byte[]> discarded_;  // buffer for fetched values that nobody needs
  std::unique_ptr<std::byte[]> copies_;     // by slot, copied_size_max each: copies of sources
  // Endpoints must close before the registrations and the peers; ~libfabric_endpoint() closes them
  // first.
  std::unique_ptr<libfabric_regions> regions_;
  libfabric_handle<fid_mr> contexts_region_, copies_region_;
  libfabric_peers peers_;
  libfabric_handle<fid_ep> endpoint_;
  seams::fabric_address address_;
  std::deque<uint32_t> receives_waiting_;
  std::set<seams::fabric_peer> backlog_;  // peers with operations waiting
  std::set<seams::fabric_peer> broken_;   // peers whose connection failed
  std::set<seams::fabric_peer> removed_;  // removed peers with operations that have not settled
  uint64_t processes_checked_ns_ = 0;
  std::atomic<bool> woken_{false};
  uint64_t changes_seen_ = 0;  // count of changes by peers at the last wait
  int wake_descriptor_ = -1;   // ends a sleep; `woken_` is the flag that counts
};

}  // namespace tanada::backends
