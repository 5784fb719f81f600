// sim/fabric_network.hpp: what the simulated fabric's endpoints share. For fabric.cc and
// fabric_endpoint.cc alone.
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
  port::fabric_memory memory;
  port::fabric_access access;
  uint64_t key = 0;
  uint32_t users = 0;  // operations of the owner in it
  port::registration_cache::registration *cached = nullptr;
};

// An operation under way. It is void once its slot is used for something else.
struct fabric_flight {
  std::shared_ptr<fabric_node> from;
  uint32_t slot, generation;
  port::fabric_op op;
  std::string target;
  std::shared_ptr<std::vector<std::byte>> copy =
      {};  // of the source, when the caller has that back

  bool is_current() const;
};

struct fabric_message {
  std::string sender;
  std::vector<std::byte> bytes;
};

// Memory of a region that an operation uses until it settles.
constexpr bool fabric_holds_region(const port::fabric_op &op) {
  return op.region != port::no_fabric_region && !port::fabric_is_element(op) &&
         !port::fabric_is_copied(op);
}

// What is behind an endpoint, and stays while something is under way to or from it.
struct fabric_node {
  fabric_node(std::string name_, const fabric_options &options_)
      : name{std::move(name_)},
        options{options_},
        ops{options_.depth, port::fabric_path::simulated} {}

  std::string name;
  fabric_options options;
  bool alive = true;
  uint64_t slow_ns = 0;
  port::fabric_op_table ops;
  std::map<port::fabric_peer, std::string> peers;
  std::deque<uint32_t> receives;        // slots, in order
  std::deque<fabric_message> messages;  // arrived, without a receive
  std::deque<fabric_flight> inbound;    // transfers that wait for the owner's next poll
  std::map<port::fabric_region_id, fabric_region> regions;
  port::fabric_region_id next_region = 1;
  port::fabric_peer next_peer = 0;
  uint32_t again_left = 0;  // of a burst
  bool woken = false;

  void settle(uint32_t slot, status code, uint64_t size = 0,
              port::fabric_peer sender = port::no_fabric_peer, uint64_t value = 0);
  port::fabric_peer peer_named(const std::string &other) const;
};

struct fabric::network : std::enable_shared_from_this<fabric::network> {
  explicit network(world &owner_) : owner{owner_} {}

  static constexpr size_t messages_max = 1024;  // that wait at an endpoint without a receive

  world &owner;
  fabric_faults faults;
  std::map<std::string, std::shared_ptr<fabric_node>> nodes;
  std::map<std::string, std::map<port::fabric_region_id, fabric_region>>
      kept;  // of nodes that died
  std::map<std::string, uint64_t> slow_ns;
  std::set<std::pair<std::string, std::string>> cuts;
  std::map<std::pair<std::string, std::string>, uint64_t> last_message_ns;
  std::vector<std::function<void()>> held;  // by a partition

  bool is_cut(const std::string &one, const std::string &other) const;
  std::shared_ptr<fabric_node> living(const std::string &name) const;
  uint64_t way_ns(const std::string &one, const std::string &other);
  void cross(const std::string &one, const std::string &other, uint64_t due_ns,
             std::function<void()> arrive);

  void send_off(const fabric_flight &flight);
  void lose(const fabric_flight &flight);
  void arrive(const fabric_flight &flight);
  void arrive_message(const fabric_flight &flight, fabric_node &target);
  void serve(fabric_node &target);
  void serve_transfers(fabric_node &target);
  void perform(const fabric_flight &flight, fabric_node &target);
  void answer(const fabric_flight &flight, status code, uint64_t size, uint64_t value);
  void match(fabric_node &target);
  void expire(const std::shared_ptr<fabric_node> &node, uint32_t slot, uint32_t generation);
  void corrupt(std::byte *addr, size_t size);
};

class fabric::endpoint final : public port::fabric_endpoint {
 public:
  endpoint(std::shared_ptr<network> owner, std::shared_ptr<fabric_node> node);
  ~endpoint() override;

  const port::fabric_properties &properties() const noexcept override {
    return properties_;
  }
  const port::fabric_address &address() const noexcept override {
    return address_;
  }
  result<port::fabric_peer> peer_add(std::span<const std::byte> address) override;
  status peer_remove(port::fabric_peer peer) override;
  result<port::fabric_region> region_register(const port::fabric_memory &memory,
                                              port::fabric_access access) override;
  status region_release(port::fabric_region_id region) override;
  void memory_forget(const std::byte *addr, size_t size) override;
  status post(const port::fabric_op &op) override;
  size_t poll(std::span<port::fabric_completion> completions) override;
  status wait(uint64_t deadline_ns) override;
  void wake() noexcept override;
  size_t pending_count() const noexcept override;
  port::fabric_counters counters() const noexcept override;

 private:
  status check_region(const port::fabric_op &op) const;

  std::shared_ptr<network> network_;
  std::shared_ptr<fabric_node> node_;
  port::fabric_properties properties_;
  port::fabric_address address_;
  port::registration_cache cache_;
};

}  // namespace tanada::sim
