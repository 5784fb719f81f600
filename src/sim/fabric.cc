#include "sim/fabric.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "sim/fabric_network.hpp"

namespace tanada::sim {
namespace {

using port::fabric_op_kind;
using port::fabric_slot_state;

std::pair<std::string, std::string> ordered(const std::string &one, const std::string &other) {
  return one < other ? std::pair{one, other} : std::pair{other, one};
}

template <class T>
T element_update(const port::fabric_op &op, std::byte *there) {
  std::atomic_ref<T> const at{*reinterpret_cast<T *>(there)};
  T const operand = T(op.operand);
  T compare = T(op.compare);
  switch (op.atomic) {
    case port::fabric_atomic::add: return at.fetch_add(operand);
    case port::fabric_atomic::bit_and: return at.fetch_and(operand);
    case port::fabric_atomic::bit_or: return at.fetch_or(operand);
    case port::fabric_atomic::bit_xor: return at.fetch_xor(operand);
    case port::fabric_atomic::swap: return at.exchange(operand);
    case port::fabric_atomic::compare_swap:
      at.compare_exchange_strong(compare, operand);
      return compare;
    case port::fabric_atomic::fetch: break;
  }
  return at.load();
}

template <class T>
void vector_add(std::byte *there, const std::byte *source, size_t size) {
  for (size_t i = 0; i < size; i += sizeof(T)) {
    T operand;
    std::memcpy(&operand, source + i, sizeof operand);
    std::atomic_ref<T>{*reinterpret_cast<T *>(there + i)}.fetch_add(operand);
  }
}

// What was there before, of one element.
uint64_t atomic_perform(const port::fabric_op &op, const std::byte *source, std::byte *there) {
  using port::fabric_element;
  bool const is_element = port::fabric_is_element(op);
  switch (op.element) {
    case fabric_element::u32:
      if (is_element)
        return element_update<uint32_t>(op, there);
      vector_add<uint32_t>(there, source, op.size);
      break;
    case fabric_element::u64:
      if (is_element)
        return element_update<uint64_t>(op, there);
      vector_add<uint64_t>(there, source, op.size);
      break;
    case fabric_element::f32:
    case fabric_element::c64: vector_add<float>(there, source, op.size); break;
    default: vector_add<double>(there, source, op.size);
  }
  return 0;
}

}  // namespace

bool fabric_flight::is_current() const {
  auto const &what = from->ops[slot];
  return from->alive && what.generation == generation && what.state != fabric_slot_state::free;
}

void fabric_node::settle(uint32_t slot, status code, uint64_t size, port::fabric_peer sender,
                         uint64_t value) {
  auto const &op = ops[slot].op;
  if (auto const region = regions.find(op.region);
      region != regions.end() && fabric_holds_region(op))
    region->second.users--;
  ops.settle(slot, code, size, sender, value);
}

port::fabric_peer fabric_node::peer_named(const std::string &other) const {
  auto const at =
      std::find_if(peers.begin(), peers.end(), [&](auto &each) { return each.second == other; });
  return at == peers.end() ? port::no_fabric_peer : at->first;
}

bool fabric::network::is_cut(const std::string &one, const std::string &other) const {
  return cuts.contains(ordered(one, other));
}

std::shared_ptr<fabric_node> fabric::network::living(const std::string &name) const {
  auto const at = nodes.find(name);
  return at == nodes.end() || !at->second->alive ? nullptr : at->second;
}

uint64_t fabric::network::way_ns(const std::string &one, const std::string &other) {
  auto const extra = [&](const std::string &name) {
    auto const at = slow_ns.find(name);
    return at == slow_ns.end() ? 0 : at->second;
  };
  return owner.random.between(faults.delay_ns_min, faults.delay_ns_max) + extra(one) + extra(other);
}

void fabric::network::cross(const std::string &one, const std::string &other, uint64_t due_ns,
                            std::function<void()> arrive_there) {
  owner.at(due_ns, [self = shared_from_this(), one, other, arrive_there = std::move(arrive_there)] {
    if (self->is_cut(one, other)) {
      self->held.push_back([self, one, other, arrive_there] {
        // In their order: what is ordered stays so.
        auto &last_ns = self->last_message_ns[{one, other}];
        last_ns = std::max(last_ns, self->owner.now_ns() + self->way_ns(one, other));
        self->cross(one, other, last_ns, arrive_there);
      });
    } else {
      arrive_there();
    }
  });
}

void fabric::network::send_off(const fabric_flight &flight) {
  uint64_t due_ns = owner.now_ns() + way_ns(flight.from->name, flight.target);
  uint32_t tries = 0;
  for (; tries <= faults.retry_count_max && owner.random.chance(faults.drop_percent); tries++)
    due_ns += faults.retry_ns;
  bool const is_message = flight.op.kind == fabric_op_kind::send;
  auto &last_ns = last_message_ns[{flight.from->name, flight.target}];
  bool const keeps_order = is_message || !faults.reorder || flight.from->options.is_ordered;
  if (keeps_order &&
      !owner.random.chance(is_message ? faults.swap_percent : faults.overtake_percent)) {
    due_ns = std::max(due_ns, last_ns);
    last_ns = due_ns;
  }
  bool const gives_up = tries > faults.retry_count_max;
  cross(flight.from->name, flight.target, due_ns, [self = shared_from_this(), flight, gives_up] {
    if (gives_up)
      self->lose(flight);
    else
      self->arrive(flight);
  });
}

void fabric::network::lose(const fabric_flight &flight) {
  if (flight.is_current())
    flight.from->settle(flight.slot, status::peer_lost);
}

void fabric::network::arrive(const fabric_flight &flight) {
  if (!flight.is_current())
    return;
  auto const target = living(flight.target);
  if (!target) {
    owner.at(owner.now_ns() + faults.detect_ns,
             [self = shared_from_this(), flight] { self->lose(flight); });
  } else if (flight.op.kind == fabric_op_kind::send) {
    arrive_message(flight, *target);
  } else {
    target->inbound.push_back(flight);
    if (target->options.progresses_alone)
      serve_transfers(*target);
  }
}

void fabric::network::arrive_message(const fabric_flight &flight, fabric_node &target) {
  if (target.messages.size() >= messages_max) {
    // As a network does whose buffers are full: what comes later waits behind this one.
    auto &last_ns = last_message_ns[{flight.from->name, flight.target}];
    uint64_t const due_ns = owner.now_ns() + faults.retry_ns;
    last_ns = std::max(last_ns, due_ns);
    cross(flight.from->name, flight.target, due_ns,
          [self = shared_from_this(), flight] { self->arrive(flight); });
    return;
  }
  fabric_message message{flight.from->name, {flight.op.addr, flight.op.addr + flight.op.size}};
  if (owner.random.chance(faults.corrupt_percent))
    corrupt(message.bytes.data(), message.bytes.size());
  if (!owner.random.chance(faults.lost_percent)) {
    if (owner.random.chance(faults.duplicate_percent))
      target.messages.push_back(message);
    target.messages.push_back(std::move(message));
  }
  answer(flight, status::ok, flight.op.size, 0);
}

// What an endpoint does for its peers when it is polled.
void fabric::network::serve(fabric_node &target) {
  if (!target.alive)
    return;
  match(target);
  serve_transfers(target);
}

void fabric::network::serve_transfers(fabric_node &target) {
  for (auto left = target.inbound.size(); left > 0; left--) {
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
    target.messages.pop_front();
    target.receives.pop_front();
    auto const &op = target.ops[slot].op;
    bool const fits = message.bytes.size() <= op.size;
    size_t const size = std::min(message.bytes.size(), op.size);
    std::copy_n(message.bytes.begin(), size, op.addr);
    owner.note(size);
    target.settle(slot, fits ? status::ok : status::overflow, size,
                  target.peer_named(message.sender));
  }
}

void fabric::network::perform(const fabric_flight &flight, fabric_node &target) {
  auto const &op = flight.op;
  uint64_t const size = port::fabric_remote_size(op);
  uint64_t const offset = op.remote.base + op.offset;
  auto const needed = port::fabric_needed_access(op);
  auto const at = std::find_if(target.regions.begin(), target.regions.end(), [&](auto &each) {
    return each.second.key != 0 && each.second.key == op.remote.key;
  });
  if (at == target.regions.end() || offset > at->second.memory.size ||
      at->second.memory.size - offset < size ||
      (needed.remote_read && !at->second.access.remote_read) ||
      (needed.remote_write && !at->second.access.remote_write)) {
    answer(flight, status::access, 0, 0);
    return;
  }
  auto *const there = at->second.memory.addr + offset;
  bool const is_lost = needed.remote_write && owner.random.chance(faults.lost_percent);
  uint64_t value = 0;
  if (op.kind == fabric_op_kind::read) {
    std::memcpy(op.addr, there, size);
    if (owner.random.chance(faults.corrupt_percent))
      corrupt(op.addr, size);
  } else if (op.kind == fabric_op_kind::write) {
    auto const *const source = flight.copy ? flight.copy->data() : op.addr;
    if (!is_lost)
      std::memcpy(there, source, size);
    if (owner.random.chance(faults.corrupt_percent))
      corrupt(there, size);
  } else if (reinterpret_cast<uintptr_t>(there) % port::fabric_element_alignment(op.element) != 0) {
    answer(flight, status::access, 0, 0);
    return;
  } else if (!is_lost) {
    value = atomic_perform(op, flight.copy ? flight.copy->data() : op.addr, there);
  }
  answer(flight, status::ok, size, port::fabric_fetches(op) ? value : 0);
}

void fabric::network::answer(const fabric_flight &flight, status code, uint64_t size,
                             uint64_t value) {
  uint64_t const due_ns = owner.now_ns() + way_ns(flight.target, flight.from->name);
  cross(flight.target, flight.from->name, due_ns,
        [self = shared_from_this(), flight, code, size, value] {
          if (!flight.is_current())
            return;
          self->owner.note(flight.op.op_id ^ uint64_t(uint32_t(int(code))) << 32);
          flight.from->settle(flight.slot, code, size, port::no_fabric_peer, value);
        });
}

void fabric::network::expire(const std::shared_ptr<fabric_node> &node, uint32_t slot,
                             uint32_t generation) {
  auto &what = node->ops[slot];
  if (!node->alive || what.generation != generation || what.state != fabric_slot_state::posted)
    return;
  if (what.op.kind != fabric_op_kind::receive) {
    node->ops.abandon(slot);
    return;
  }
  if (!owner.random.chance(faults.late_cancel_percent)) {
    std::erase(node->receives, slot);
    node->settle(slot, status::timed_out);
    return;
  }
  node->ops.abandon(slot);
  owner.at(owner.now_ns() + faults.late_ns, [node, slot, generation] {
    auto const &late = node->ops[slot];
    if (!node->alive || late.generation != generation || late.state != fabric_slot_state::abandoned)
      return;
    std::erase(node->receives, slot);
    node->settle(slot, status::timed_out);
  });
}

void fabric::network::corrupt(std::byte *addr, size_t size) {
  if (size != 0)
    addr[owner.random.below(size)] ^= std::byte(1 + owner.random.below(255));
}

fabric::fabric(world &owner, fabric_faults faults) : network_{std::make_shared<network>(owner)} {
  network_->faults = faults;
}

fabric::~fabric() = default;

result<std::unique_ptr<port::fabric_endpoint>> fabric::open(const std::string &name,
                                                            const fabric_options &options) {
  std::lock_guard lock{network_->owner.mutex()};
  if (name.empty() || name.size() > 64 || options.depth == 0 ||
      options.depth > port::fabric_depth_max)
    return status::invalid;
  if (network_->living(name))
    return status::exists;
  auto node = std::make_shared<fabric_node>(name, options);
  if (auto const left = network_->kept.extract(name)) {
    node->regions = left.mapped();
    node->next_region = node->regions.empty() ? 1 : node->regions.rbegin()->first + 1;
  }
  network_->nodes[name] = node;
  return std::unique_ptr<port::fabric_endpoint>{
      std::make_unique<endpoint>(network_, std::move(node))};
}

void fabric::faults_set(const fabric_faults &faults) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->faults = faults;
}

void fabric::partition(const std::string &one, const std::string &other) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->cuts.insert(ordered(one, other));
}

void fabric::heal() {
  std::lock_guard lock{network_->owner.mutex()};
  network_->cuts.clear();
  for (auto const &each : std::exchange(network_->held, {}))
    each();
}

void fabric::slow(const std::string &name, uint64_t extra_ns) {
  std::lock_guard lock{network_->owner.mutex()};
  network_->slow_ns[name] = extra_ns;
}

void fabric::crash(const std::string &name, bool memory_kept) {
  std::lock_guard lock{network_->owner.mutex()};
  auto const node = network_->living(name);
  if (!node)
    return;
  node->alive = false;
  if (memory_kept) {
    auto &kept = network_->kept[name];
    kept = node->regions;
    std::erase_if(kept, [](auto &each) { return each.second.key == 0; });
    for (auto &[id, each] : kept)
      each.users = 0;
  }
  // What it had not answered it will not answer.
  for (auto const &flight : std::exchange(node->inbound, {})) {
    network_->owner.at(network_->owner.now_ns() + network_->faults.detect_ns,
                       [self = network_, flight] { self->lose(flight); });
  }
}

}  // namespace tanada::sim
