// The network of the simulated fabric: delays, faults, and the effects of operations.
#include "sim/fabric.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/assert.hpp"
#include "sim/fabric_network.hpp"

namespace tanada::sim {
namespace {

using seams::fabric_op_kind;
using seams::fabric_slot_state;

std::pair<std::string, std::string> ordered(const std::string &first, const std::string &second) {
  return first < second ? std::pair{first, second} : std::pair{second, first};
}

template <class T>
T element_update(const seams::fabric_op &op, std::byte *target) {
  std::atomic_ref<T> const element{*reinterpret_cast<T *>(target)};
  T const operand = T(op.operand);
  T compare = T(op.compare);
  switch (op.atomic) {
    case seams::fabric_atomic::add:
      return element.fetch_add(operand);
    case seams::fabric_atomic::bit_and:
      return element.fetch_and(operand);
    case seams::fabric_atomic::bit_or:
      return element.fetch_or(operand);
    case seams::fabric_atomic::bit_xor:
      return element.fetch_xor(operand);
    case seams::fabric_atomic::swap:
      return element.exchange(operand);
    case seams::fabric_atomic::compare_swap:
      element.compare_exchange_strong(compare, operand);
      return compare;
    case seams::fabric_atomic::fetch:
      break;
  }
  return element.load();
}

template <class T>
void vector_add(std::byte *target, const std::byte *source, size_t size) {
  for (size_t i = 0; i < size; i += sizeof(T)) {
    T operand;
    std::memcpy(&operand, source + i, sizeof operand);
    std::atomic_ref<T>{*reinterpret_cast<T *>(target + i)}.fetch_add(operand);
  }
}

// Returns the previous value; only for a single element.
uint64_t atomic_perform(const seams::fabric_op &op, const std::byte *source, std::byte *target) {
  using seams::fabric_element;
  bool const is_element = seams::fabric_is_element(op);
  switch (op.element) {
    case fabric_element::u32:
      if (is_element)
        return element_update<uint32_t>(op, target);
      vector_add<uint32_t>(target, source, op.size);
      break;
    case fabric_element::u64:
      if (is_element)
        return element_update<uint64_t>(op, target);
      vector_add<uint64_t>(target, source, op.size);
      break;
    case fabric_element::f32:
    case fabric_element::c64:
      vector_add<float>(target, source, op.size);
      break;
    default:
      vector_add<double>(target, source, op.size);
  }
  return 0;
}

// The memory that an operation accesses at its target. Null: no region has the key, the range is
// outside the region, or the region does not grant the access.
std::byte *target_memory(fabric_node &target, const seams::fabric_op &op) {
  auto const it = std::find_if(target.regions.begin(), target.regions.end(), [&](auto &entry) {
    return entry.second.key != 0 && entry.second.key == op.remote.key;
  });
  if (it == target.regions.end())
    return nullptr;
  auto const &region = it->second;
  auto const needed = seams::fabric_needed_access(op);
  uint64_t const offset = op.remote.base + op.offset;
  bool const is_inside =
      offset <= region.memory.size && region.memory.size - offset >= seams::fabric_remote_size(op);
  bool const is_granted = (!needed.remote_read || region.access.remote_read) &&
                          (!needed.remote_write || region.access.remote_write);
  return is_inside && is_granted ? region.memory.addr + offset : nullptr;
}

bool is_aligned(const std::byte *address, seams::fabric_element element) {
  return reinterpret_cast<uintptr_t>(address) % seams::fabric_element_alignment(element) == 0;
}

}  // namespace

bool fabric_flight::is_current() const {
  TND_ASSERT(slot < origin->ops.depth());
  auto const &entry = origin->ops[slot];
  return origin->is_alive && entry.generation == generation &&
         entry.state != fabric_slot_state::free;
}

void fabric_node::complete_op(
    uint32_t slot, status code, uint64_t size, seams::fabric_peer sender, uint64_t value) {
  auto const &op = ops[slot].op;
  if (auto const region = regions.find(op.region);
      region != regions.end() && fabric_holds_region(op)) {
    TND_ASSERT(region->second.users != 0);
    region->second.users--;
  }
  ops.settle(slot, code, size, sender, value);
}

seams::fabric_peer fabric_node::peer_named(const std::string &peer_name) const {
  auto const it = std::find_if(
      peers.begin(), peers.end(), [&](auto &entry) { return entry.second == peer_name; });
  return it == peers.end() ? seams::no_fabric_peer : it->first;
}

bool fabric::network::is_cut(const std::string &first, const std::string &second) const {
  return cuts.contains(ordered(first, second));
}

std::shared_ptr<fabric_node> fabric::network::find_live(const std::string &name) const {
  auto const it = nodes.find(name);
  return it == nodes.end() || !it->second->is_alive ? nullptr : it->second;
}

uint64_t fabric::network::latency_ns(const std::string &source, const std::string &target) {
  auto const extra = [&](const std::string &name) {
    auto const it = slow_ns.find(name);
    return it == slow_ns.end() ? 0 : it->second;
  };
  return owner.random.between(faults.delay_ns_min, faults.delay_ns_max) + extra(source) +
         extra(target);
}

void fabric::network::cross(const std::string &source,
                            const std::string &target,
                            uint64_t due_ns,
                            std::function<void()> action) {
  owner.schedule(
      due_ns, [self = shared_from_this(), source, target, arrive_there = std::move(action)] {
        if (self->is_cut(source, target)) {
          self->held_actions.push_back([self, source, target, arrive_there] {
            // Keep their order: ordered operations stay ordered.
            auto &last_ns = self->last_message_ns[{source, target}];
            last_ns = std::max(last_ns, self->owner.now_ns() + self->latency_ns(source, target));
            self->cross(source, target, last_ns, arrive_there);
          });
        } else {
          arrive_there();
        }
      });
}

void fabric::network::dispatch(const fabric_flight &flight) {
  uint64_t due_ns = owner.now_ns() + latency_ns(flight.origin->name, flight.target);
  uint32_t tries = 0;
  for (; tries <= faults.retry_count_max && owner.random.chance(faults.drop_percent); tries++)
    due_ns += faults.retry_ns;
  bool const is_message = flight.op.kind == fabric_op_kind::send;
  auto &last_ns = last_message_ns[{flight.origin->name, flight.target}];
  bool const keeps_order = is_message || !faults.reorder || flight.origin->options.is_ordered;
  if (keeps_order &&
      !owner.random.chance(is_message ? faults.swap_percent : faults.overtake_percent)) {
    due_ns = std::max(due_ns, last_ns);
    last_ns = due_ns;
  }
  bool const gives_up = tries > faults.retry_count_max;
  cross(flight.origin->name, flight.target, due_ns, [self = shared_from_this(), flight, gives_up] {
    if (gives_up)
      self->fail_operation(flight);
    else
      self->arrive(flight);
  });
}

void fabric::network::fail_operation(const fabric_flight &flight) {
  if (flight.is_current())
    flight.origin->complete_op(flight.slot, status::peer_lost);
}

void fabric::network::arrive(const fabric_flight &flight) {
  if (!flight.is_current())
    return;
  auto const target = find_live(flight.target);
  if (!target) {
    owner.schedule(owner.now_ns() + faults.detect_ns,
                   [self = shared_from_this(), flight] { self->fail_operation(flight); });
  } else if (flight.op.kind == fabric_op_kind::send) {
    arrive_message(flight, *target);
  } else {
    target->inbound.push_back(flight);
    if (target->options.has_auto_progress)
      handle_transfers(*target);
  }
}

void fabric::network::arrive_message(const fabric_flight &flight, fabric_node &target) {
  if (target.messages.size() >= message_count_max) {
    // Behave like a network with full buffers: later messages wait behind this one.
    auto &last_ns = last_message_ns[{flight.origin->name, flight.target}];
    uint64_t const due_ns = owner.now_ns() + faults.retry_ns;
    last_ns = std::max(last_ns, due_ns);
    cross(flight.origin->name, flight.target, due_ns, [self = shared_from_this(), flight] {
      self->arrive(flight);
    });
    return;
  }
  fabric_message message{flight.origin->name, {flight.op.addr, flight.op.addr + flight.op.size}};
  if (owner.random.chance(faults.corrupt_percent))
    corrupt(message.bytes.data(), message.bytes.size());
  if (!owner.random.chance(faults.loss_percent)) {
    if (owner.random.chance(faults.duplicate_percent))
      target.messages.push_back(message);
    target.messages.push_back(std::move(message));
  }
  reply(flight, status::ok, flight.op.size, 0);
}

// Handle the requests of peers, as an endpoint does when it is polled.
void fabric::network::handle_requests(fabric_node &target) {
  if (!target.is_alive)
    return;
  match(target);
  handle_transfers(target);
}

void fabric::network::handle_transfers(fabric_node &target) {
  for (auto remaining = target.inbound.size(); remaining > 0; remaining--) {
    auto const flight = std::move(target.inbound.front());
    target.inbound.pop_front();
    if (flight.is_current())
      perform(flight, target);
  }
}

void fabric::network::match(fabric_node &target) {
  while (!target.messages.empty() && !target.receives.empty()) {
    auto const message = std::move(target.messages.front());
    uint32_t const slot = target.receives.front();
    TND_ASSERT(target.ops[slot].op.kind == fabric_op_kind::receive);
    target.messages.pop_front();
    target.receives.pop_front();
    auto const &op = target.ops[slot].op;
    bool const fits = message.bytes.size() <= op.size;
    size_t const size = std::min(message.bytes.size(), op.size);
    std::copy_n(message.bytes.begin(), size, op.addr);
    owner.note(size);
    target.complete_op(
        slot, fits ? status::ok : status::overflow, size, target.peer_named(message.sender));
  }
}

void fabric::network::perform(const fabric_flight &flight, fabric_node &target) {
  auto const &op = flight.op;
  auto *const address = target_memory(target, op);
  if (address == nullptr)
    return reply(flight, status::access, 0, 0);
  bool const is_lost =
      seams::fabric_needed_access(op).remote_write && owner.random.chance(faults.loss_percent);
  if (op.kind == fabric_op_kind::atomic && !is_aligned(address, op.element))
    return reply(flight, status::access, 0, 0);
  uint64_t const value = access(flight, address, is_lost);
  reply(flight, status::ok, seams::fabric_remote_size(op), seams::fabric_fetches(op) ? value : 0);
}

// Reads, writes or updates the memory of the target. Returns the previous value of a fetching
// atomic.
uint64_t fabric::network::access(const fabric_flight &flight, std::byte *address, bool is_lost) {
  auto const &op = flight.op;
  TND_ASSERT(op.kind != fabric_op_kind::send && op.kind != fabric_op_kind::receive);
  uint64_t const size = seams::fabric_remote_size(op);
  if (op.kind == fabric_op_kind::read) {
    std::memcpy(op.addr, address, size);
    if (owner.random.chance(faults.corrupt_percent))
      corrupt(op.addr, size);
    return 0;
  }
  auto const *const source = flight.copy ? flight.copy->data() : op.addr;
  if (op.kind == fabric_op_kind::atomic)
    return is_lost ? 0 : atomic_perform(op, source, address);
  if (!is_lost)
    std::memcpy(address, source, size);
  if (owner.random.chance(faults.corrupt_percent))
    corrupt(address, size);
  return 0;
}

void fabric::network::reply(const fabric_flight &flight,
                            status code,
                            uint64_t size,
                            uint64_t value) {
  uint64_t const due_ns = owner.now_ns() + latency_ns(flight.target, flight.origin->name);
  cross(flight.target,
        flight.origin->name,
        due_ns,
        [self = shared_from_this(), flight, code, size, value] {
          if (!flight.is_current())
            return;
          self->owner.note(flight.op.op_id ^ uint64_t(uint32_t(int(code))) << 32);
          flight.origin->complete_op(flight.slot, code, size, seams::no_fabric_peer, value);
        });
}

void fabric::network::expire(const std::shared_ptr<fabric_node> &node,
                             uint32_t slot,
                             uint32_t generation) {
  auto &entry = node->ops[slot];
  if (!node->is_alive || entry.generation != generation || entry.state != fabric_slot_state::posted)
    return;
  if (entry.op.kind != fabric_op_kind::receive) {
    node->ops.abandon(slot);
    return;
  }
  if (!owner.random.chance(faults.late_cancel_percent)) {
    std::erase(node->receives, slot);
    node->complete_op(slot, status::timed_out);
    return;
  }
  node->ops.abandon(slot);
  owner.schedule(owner.now_ns() + faults.late_ns, [node, slot, generation] {
    auto const &late = node->ops[slot];
    if (!node->is_alive || late.generation != generation ||
        late.state != fabric_slot_state::abandoned)
      return;
    std::erase(node->receives, slot);
    node->complete_op(slot, status::timed_out);
  });
}

void fabric::network::corrupt(std::byte *addr, size_t size) {
  if (size != 0)
    addr[owner.random.below(size)] ^= std::byte(1 + owner.random.below(255));
}

fabric::fabric(world &owner, fabric_faults faults) : network_{std::make_shared<network>(owner)} {
  network_->faults = faults;
}

// Operations in flight refer to the network and to each other's endpoints.
fabric::~fabric() {
  network_->held_actions.clear();
  for (auto const &[name, node] : network_->nodes)
    node->inbound.clear();
}

result<std::unique_ptr<seams::fabric_endpoint>> fabric::open(const std::string &name,
                                                             const fabric_options &options) {
  std::lock_guard lock{network_->owner.mutex()};
  if (name.empty() || name.size() > 64 || options.depth == 0 ||
      options.depth > seams::fabric_depth_max)
    return status::invalid;
  if (network_->find_live(name))
    return status::exists;
  auto node = std::make_shared<fabric_node>(name, options);
  if (auto const preserved = network_->preserved_regions.extract(name)) {
    node->regions = preserved.mapped();
    node->next_region = node->regions.empty() ? 1 : node->regions.rbegin()->first + 1;
  }
  network_->nodes[name] = node;
  return std::unique_ptr<seams::fabric_endpoint>{
      std::make_unique<endpoint>(network_, std::move(node))};
}

void fabric::faults_set(const fabric_faults &faults) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->faults = faults;
}

void fabric::partition(const std::string &first, const std::string &second) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->cuts.insert(ordered(first, second));
}

void fabric::heal() {
  std::lock_guard lock{network_->owner.mutex()};
  network_->cuts.clear();
  for (auto const &action : std::exchange(network_->held_actions, {}))
    action();
}

void fabric::slow(const std::string &name, uint64_t extra_ns) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->slow_ns[name] = extra_ns;
}

void fabric::crash(const std::string &name, bool memory_kept) {
  std::lock_guard lock{network_->owner.mutex()};
  auto const node = network_->find_live(name);
  if (!node)
    return;
  node->is_alive = false;
  if (memory_kept) {
    auto &preserved = network_->preserved_regions[name];
    preserved = node->regions;
    std::erase_if(preserved, [](auto &entry) { return entry.second.key == 0; });
    for (auto &[id, entry] : preserved)
      entry.users = 0;
  }
  // The failed endpoint never replies to these transfers.
  for (auto const &flight : std::exchange(node->inbound, {})) {
    network_->owner.schedule(network_->owner.now_ns() + network_->faults.detect_ns,
                             [self = network_, flight] { self->fail_operation(flight); });
  }
}

}  // namespace tanada::sim
