// sim/fabric_network.hpp: state shared by the endpoints of the simulated fabric. Only fabric.cc and
// fabric_endpoint.cc include it.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "seams/fabric/op_table.hpp"
#include "sim/fabric.hpp"

namespace tanada::sim {

struct fabric_node;

struct fabric_region {
  seams::fabric_memory memory;
  seams::fabric_access access;
  uint64_t key = 0;
  uint32_t users = 0;  // operations of the owner that use it
  seams::registration_cache::registration *cached = nullptr;
};

// An operation in flight. It is no longer current once its slot has been reused.
struct fabric_flight {
  std::shared_ptr<fabric_node> origin;
  uint32_t slot, generation;
  seams::fabric_op op;
  std::string target;
  std::shared_ptr<std::vector<std::byte>> copy =
      {};  // a copy of the source, when the caller may reuse it

  bool is_current() const;
};

struct fabric_message {
  std::string sender;
  std::vector<std::byte> bytes;
};

// Whether an operation uses memory of a region until it completes.
constexpr bool fabric_holds_region(const seams::fabric_op &op) {
  return op.region != seams::no_fabric_region && !seams::fabric_is_element(op) &&
         !seams::fabric_is_copied(op);
}

// The state of an endpoint. It lives on while an operation to or from it is in flight.
struct fabric_node {
  fabric_node(std::string name_, const fabric_options &options_)
      : name{std::move(name_)},
        options{options_},
        ops{options_.depth, seams::fabric_path::simulated} {}

  std::string name;
  fabric_options options;
  bool is_alive = true;
  uint64_t slow_ns = 0;
  seams::fabric_op_table ops;
  std::map<seams::fabric_peer, std::string> peers;
  std::deque<uint32_t> receives;        // slots, in order
  std::deque<fabric_message> messages;  // arrived without a posted receive
  std::deque<fabric_flight> inbound;    // transfers that the owner's next poll handles
  std::map<seams::fabric_region_id, fabric_region> regions;
  seams::fabric_region_id next_region = 1;
  seams::fabric_peer next_peer = 0;
  uint32_t again_remaining = 0;  // posts left in a burst of `again`
  bool is_woken = false;

  void complete_op(uint32_t slot,
                   status code,
                   uint64_t size = 0,
                   seams::fabric_peer sender = seams::no_fabric_peer,
                   uint64_t value = 0);
  seams::fabric_peer peer_named(const std::string &peer_name) const;
};

struct fabric::network : std::enable_shared_from_this<fabric::network> {
  explicit network(world &owner_) : owner{owner_} {}

  static constexpr size_t message_count_max = 1024;  // at one endpoint without a posted receive

  world &owner;
  fabric_faults faults;
  std::map<std::string, std::shared_ptr<fabric_node>> nodes;
  std::map<std::string, std::map<seams::fabric_region_id, fabric_region>>
      preserved_regions;  // regions of failed nodes
  std::map<std::string, uint64_t> slow_ns;
  std::set<std::pair<std::string, std::string>> cuts;
  std::map<std::pair<std::string, std::string>, uint64_t> last_message_ns;
  std::vector<std::function<void()>> held_actions;  // held back by a partition

  bool is_cut(const std::string &first, const std::string &second) const;
  std::shared_ptr<fabric_node> find_live(const std::string &name) const;
  uint64_t latency_ns(const std::string &source, const std::string &target);
  void cross(const std::string &source,
             const std::string &target,
             uint64_t due_ns,
             std::function<void()> action);

  void dispatch(const fabric_flight &flight);
  void fail_operation(const fabric_flight &flight);
  void arrive(const fabric_flight &flight);
  void arrive_message(const fabric_flight &flight, fabric_node &target);
  void handle_requests(fabric_node &target);
  void handle_transfers(fabric_node &target);
  void perform(const fabric_flight &flight, fabric_node &target);
  uint64_t access(const fabric_flight &flight, std::byte *address, bool is_lost);
  void reply(const fabric_flight &flight, status code, uint64_t size, uint64_t value);
  void match(fabric_node &target);
  void expire(const std::shared_ptr<fabric_node> &node, uint32_t slot, uint32_t generation);
  void corrupt(std::byte *addr, size_t size);
};

class fabric::endpoint final : public seams::fabric_endpoint {
 public:
  endpoint(std::shared_ptr<network> owner, std::shared_ptr<fabric_node> node);
  ~endpoint() override;

  const seams::fabric_properties &properties() const noexcept override {
    return properties_;
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
  void wake() noexcept override;
  size_t pending_count() const noexcept override;
  seams::fabric_counters counters() const noexcept override;

 private:
  status check_region(const seams::fabric_op &op) const;
  bool is_refused();
  void start(uint32_t slot);

  std::shared_ptr<network> network_;
  std::shared_ptr<fabric_node> node_;
  seams::fabric_properties properties_;
  seams::fabric_address address_;
  seams::registration_cache cache_;
};

}  // namespace tanada::sim
