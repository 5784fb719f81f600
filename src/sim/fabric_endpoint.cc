#include <algorithm>
#include <cstring>

#include "core/base/log.hpp"
#include "sim/fabric_network.hpp"

namespace tanada::sim {
namespace {

using port::fabric_op_kind;
using port::fabric_slot_state;

constexpr std::string_view prefix = "sim:";

port::registration_cache::backend no_backend() {
  return {
      [](const port::fabric_memory &) -> result<void *> { return static_cast<void *>(nullptr); },
      [](void *) {
      }};
}

}  // namespace

fabric::endpoint::endpoint(std::shared_ptr<network> owner, std::shared_ptr<fabric_node> node)
    : network_{std::move(owner)},
      node_{std::move(node)},
      cache_{no_backend(), node_->options.cache, node_->ops.counters()} {
  properties_ = {.provider = "sim",
                 .path = port::fabric_path::simulated,
                 .depth = node_->options.depth,
                 .message_size_max = node_->options.message_size_max,
                 .copied_size_max = node_->options.copied_size_max,
                 .has_atomics = true,
                 .atomics_by_processor = true,
                 .is_ordered = node_->options.is_ordered,
                 .progresses_alone = node_->options.progresses_alone,
                 .has_cuda = node_->options.has_cuda,
                 .waits_on_descriptor = true};
  std::string const text = std::string{prefix} + node_->name;
  std::memcpy(address_.bytes.data(), text.data(), text.size() + 1);
  address_.size = text.size() + 1;
}

fabric::endpoint::~endpoint() {
  std::lock_guard lock{network_->owner.mutex()};
  for (auto &[id, each] : node_->regions) {
    if (each.cached != nullptr)
      cache_.release(each.cached);
  }
  // A crash has told the others already.
  node_->alive = false;
  for (auto const &flight : std::exchange(node_->inbound, {}))
    network_->arrive(flight);
}

result<port::fabric_peer> fabric::endpoint::peer_add(std::span<const std::byte> address) {
  std::lock_guard lock{network_->owner.mutex()};
  std::string_view const text{reinterpret_cast<const char *>(address.data()), address.size()};
  if (text.size() < prefix.size() + 2 || text.size() > port::fabric_address_size_max ||
      !text.starts_with(prefix) || text.find('\0') != text.size() - 1) {
    return status::invalid;
  }
  std::string const name{text.substr(prefix.size(), text.size() - prefix.size() - 1)};
  auto const known = node_->peer_named(name);
  if (known != port::no_fabric_peer)
    return known;
  node_->peers.emplace(node_->next_peer, name);
  return node_->next_peer++;
}

status fabric::endpoint::peer_remove(port::fabric_peer peer) {
  std::lock_guard lock{network_->owner.mutex()};
  if (node_->peers.erase(peer) == 0)
    return status::no_entry;
  for (uint32_t slot = 0; slot < node_->ops.depth(); slot++) {
    auto const &what = node_->ops[slot];
    bool const is_out =
        what.state != fabric_slot_state::free && what.op.kind != fabric_op_kind::receive;
    if (is_out && what.op.peer == peer)
      node_->settle(slot, status::canceled);
  }
  return status::ok;
}

result<port::fabric_region> fabric::endpoint::region_register(const port::fabric_memory &memory,
                                                              port::fabric_access access) {
  std::lock_guard lock{network_->owner.mutex()};
  TND_TRY(port::fabric_memory_check(memory));
  if (memory.kind != port::fabric_memory_kind::host && !properties_.has_cuda) {
    return fail(status::not_supported, "sim: this endpoint takes no memory of a GPU");
  }
  fabric_region made{.memory = memory, .access = access};
  port::fabric_region told{.id = node_->next_region, .remote = {}};
  if (access.remote_read || access.remote_write) {
    made.key = network_->owner.random.next() | 1;
    told.remote = {.base = 0, .key = made.key, .size = memory.size};
  } else {
    made.cached = cache_.acquire(memory).value();
  }
  node_->regions.emplace(node_->next_region++, made);
  return told;
}

status fabric::endpoint::region_release(port::fabric_region_id region) {
  std::lock_guard lock{network_->owner.mutex()};
  auto const at = node_->regions.find(region);
  if (at == node_->regions.end())
    return status::no_entry;
  if (at->second.users != 0)
    return status::busy;
  if (at->second.cached != nullptr)
    cache_.release(at->second.cached);
  node_->regions.erase(at);
  return status::ok;
}

void fabric::endpoint::memory_forget(const std::byte *addr, size_t size) {
  std::lock_guard lock{network_->owner.mutex()};
  cache_.forget(addr, size);
}

status fabric::endpoint::check_region(const port::fabric_op &op) const {
  if (port::fabric_is_element(op))
    return status::ok;
  if (op.region == port::no_fabric_region) {
    // Real ones would take the address for a processor's.
    for (auto const &[id, each] : node_->regions) {
      bool const is_inside =
          op.addr >= each.memory.addr && op.addr < each.memory.addr + each.memory.size;
      if (is_inside && each.memory.kind != port::fabric_memory_kind::host)
        return status::invalid;
    }
    return status::ok;
  }
  auto const at = node_->regions.find(op.region);
  if (at == node_->regions.end())
    return status::no_entry;
  auto const &memory = at->second.memory;
  bool const inside = op.addr >= memory.addr && op.size <= memory.size &&
                      size_t(op.addr - memory.addr) <= memory.size - op.size;
  return inside ? status::ok : status::range;
}

status fabric::endpoint::post(const port::fabric_op &op) {
  std::lock_guard lock{network_->owner.mutex()};
  TND_TRY(port::fabric_op_check(op, properties_));
  bool const receives = op.kind == fabric_op_kind::receive;
  if (!receives && !node_->peers.contains(op.peer))
    return status::no_entry;
  TND_TRY(check_region(op));
  auto &random = network_->owner.random;
  auto const &faults = network_->faults;
  if (node_->again_left == 0 && random.chance(faults.again_percent)) {
    node_->again_left = uint32_t(1 + random.below(faults.again_burst_max));
  }
  if (node_->again_left != 0) {
    node_->again_left--;
    node_->ops.counters().again++;
    return status::again;
  }
  uint32_t const slot = node_->ops.insert(op);
  if (slot == port::fabric_op_table::no_slot)
    return status::again;
  auto &what = node_->ops[slot];
  what.state = fabric_slot_state::posted;
  if (fabric_holds_region(op))
    node_->regions.at(op.region).users++;
  if (op.deadline_ns != TND_NO_DEADLINE) {
    network_->owner.at(op.deadline_ns,
                       [self = network_, node = node_, slot, generation = what.generation] {
                         self->expire(node, slot, generation);
                       });
  }
  if (receives) {
    node_->receives.push_back(slot);
  } else {
    fabric_flight flight{node_, slot, what.generation, op, node_->peers.at(op.peer)};
    if (port::fabric_is_copied(op) && !random.chance(faults.uncopied_percent)) {
      flight.copy = std::make_shared<std::vector<std::byte>>(op.addr, op.addr + op.size);
    }
    network_->send_off(flight);
  }
  return status::ok;
}

size_t fabric::endpoint::poll(std::span<port::fabric_completion> completions) {
  std::lock_guard lock{network_->owner.mutex()};
  if (!node_->alive)
    return 0;
  network_->serve(*node_);
  return node_->ops.reap(completions);
}

status fabric::endpoint::wait(uint64_t deadline_ns) {
  std::lock_guard lock{network_->owner.mutex()};
  auto &owner = network_->owner;
  bool limited = false;
  for (;;) {
    network_->serve(*node_);
    if (node_->alive && node_->ops.has_ready())
      return status::ok;
    if (std::exchange(node_->woken, false))
      return status::interrupted;
    if (owner.now_ns() >= deadline_ns)
      return status::timed_out;
    // So that the world's next thing is not after the deadline.
    if (!std::exchange(limited, true) && deadline_ns != TND_NO_DEADLINE)
      owner.at(deadline_ns, [] {});
    if (!owner.step())
      return status::timed_out;  // nothing will ever happen
  }
}

void fabric::endpoint::wake() noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  node_->woken = true;
}

size_t fabric::endpoint::pending_count() const noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  return node_->ops.pending_count();
}

port::fabric_counters fabric::endpoint::counters() const noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  return node_->ops.counters();
}

}  // namespace tanada::sim
