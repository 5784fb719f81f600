// Endpoints of the simulated fabric: peers, regions, posts and completions.
#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "sim/fabric_network.hpp"

namespace tanada::sim {
namespace {

using seams::fabric_op_kind;
using seams::fabric_slot_state;

constexpr std::string_view prefix = "sim:";

seams::registration_cache::backend no_backend() {
  return {
      [](const seams::fabric_memory &) -> result<void *> { return static_cast<void *>(nullptr); },
      [](void *) {
      }};
}

}  // namespace

fabric::endpoint::endpoint(std::shared_ptr<network> owner, std::shared_ptr<fabric_node> node)
    : network_{std::move(owner)},
      node_{std::move(node)},
      cache_{no_backend(), node_->options.cache, node_->ops.counters()} {
  properties_ = {.provider = "sim",
                 .path = seams::fabric_path::simulated,
                 .depth = node_->options.depth,
                 .message_size_max = node_->options.message_size_max,
                 .copied_size_max = node_->options.copied_size_max,
                 .has_atomics = true,
                 .atomics_by_processor = true,
                 .is_ordered = node_->options.is_ordered,
                 .has_auto_progress = node_->options.has_auto_progress,
                 .has_cuda = node_->options.has_cuda,
                 .waits_on_descriptor = true};
  std::string const text = std::string{prefix} + node_->name;
  TND_ASSERT(text.size() < address_.bytes.size());
  std::memcpy(address_.bytes.data(), text.data(), text.size() + 1);
  address_.size = text.size() + 1;
}

fabric::endpoint::~endpoint() {
  std::lock_guard lock{network_->owner.mutex()};
  for (auto &[id, region] : node_->regions) {
    if (region.cached != nullptr)
      cache_.release(region.cached);
  }
  // After a crash the others have been notified already.
  node_->is_alive = false;
  for (auto const &flight : std::exchange(node_->inbound, {}))
    network_->arrive(flight);
}

result<seams::fabric_peer> fabric::endpoint::peer_add(std::span<const std::byte> address) {
  std::lock_guard lock{network_->owner.mutex()};
  std::string_view const text{reinterpret_cast<const char *>(address.data()), address.size()};
  if (text.size() < prefix.size() + 2 || text.size() > seams::fabric_address_size_max ||
      !text.starts_with(prefix) || text.find('\0') != text.size() - 1) {
    return status::invalid;
  }
  std::string const name{text.substr(prefix.size(), text.size() - prefix.size() - 1)};
  auto const existing = node_->peer_named(name);
  if (existing != seams::no_fabric_peer)
    return existing;
  node_->peers.emplace(node_->next_peer, name);
  return node_->next_peer++;
}

status fabric::endpoint::peer_remove(seams::fabric_peer peer) {
  std::lock_guard lock{network_->owner.mutex()};
  if (node_->peers.erase(peer) == 0)
    return status::no_entry;
  for (uint32_t slot = 0; slot < node_->ops.depth(); slot++) {
    auto const &entry = node_->ops[slot];
    bool const is_pending =
        entry.state != fabric_slot_state::free && entry.op.kind != fabric_op_kind::receive;
    if (is_pending && entry.op.peer == peer)
      node_->complete_op(slot, status::canceled);
  }
  return status::ok;
}

result<seams::fabric_region> fabric::endpoint::region_register(const seams::fabric_memory &memory,
                                                               seams::fabric_access access) {
  std::lock_guard lock{network_->owner.mutex()};
  TND_TRY(seams::fabric_memory_check(memory));
  if (memory.kind != seams::fabric_memory_kind::host && !properties_.has_cuda) {
    return fail(status::not_supported, "sim: this endpoint does not support GPU memory");
  }
  fabric_region region{.memory = memory, .access = access};
  seams::fabric_region descriptor{.id = node_->next_region, .remote = {}};
  if (access.remote_read || access.remote_write) {
    region.key = network_->owner.random.next() | 1;
    descriptor.remote = {.base = 0, .key = region.key, .size = memory.size};
  } else {
    region.cached = cache_.acquire(memory).value();
  }
  node_->regions.emplace(node_->next_region++, region);
  return descriptor;
}

status fabric::endpoint::region_release(seams::fabric_region_id region) {
  std::lock_guard lock{network_->owner.mutex()};
  auto const it = node_->regions.find(region);
  if (it == node_->regions.end())
    return status::no_entry;
  if (it->second.users != 0)
    return status::busy;
  if (it->second.cached != nullptr)
    cache_.release(it->second.cached);
  node_->regions.erase(it);
  return status::ok;
}

void fabric::endpoint::memory_forget(const std::byte *addr, size_t size) {
  std::lock_guard lock{network_->owner.mutex()};
  cache_.forget(addr, size);
}

status fabric::endpoint::check_region(const seams::fabric_op &op) const {
  if (seams::fabric_is_element(op))
    return status::ok;
  if (op.region == seams::no_fabric_region) {
    // A real endpoint would treat the address as host memory.
    for (auto const &[id, registered] : node_->regions) {
      bool const is_inside = op.addr >= registered.memory.addr &&
                             op.addr < registered.memory.addr + registered.memory.size;
      if (is_inside && registered.memory.kind != seams::fabric_memory_kind::host)
        return status::invalid;
    }
    return status::ok;
  }
  auto const it = node_->regions.find(op.region);
  if (it == node_->regions.end())
    return status::no_entry;
  auto const &memory = it->second.memory;
  bool const inside = op.addr >= memory.addr && op.size <= memory.size &&
                      size_t(op.addr - memory.addr) <= memory.size - op.size;
  return inside ? status::ok : status::range;
}

// Whether a fault refuses this post, as a full network does.
bool fabric::endpoint::is_refused() {
  auto &random = network_->owner.random;
  auto const &faults = network_->faults;
  if (node_->again_remaining == 0 && random.chance(faults.again_percent))
    node_->again_remaining = uint32_t(1 + random.below(faults.again_burst_max));
  if (node_->again_remaining == 0)
    return false;
  node_->again_remaining--;
  node_->ops.counters().again++;
  return true;
}

// Sends the operation of a slot, or queues it if it is a receive.
void fabric::endpoint::start(uint32_t slot) {
  auto &entry = node_->ops[slot];
  auto const &op = entry.op;
  TND_ASSERT(entry.state == fabric_slot_state::posted);
  if (op.kind == fabric_op_kind::receive) {
    node_->receives.push_back(slot);
    return;
  }
  fabric_flight flight{node_, slot, entry.generation, op, node_->peers.at(op.peer)};
  if (seams::fabric_is_copied(op) &&
      !network_->owner.random.chance(network_->faults.uncopied_percent))
    flight.copy = std::make_shared<std::vector<std::byte>>(op.addr, op.addr + op.size);
  network_->dispatch(flight);
}

status fabric::endpoint::post(const seams::fabric_op &op) {
  std::lock_guard lock{network_->owner.mutex()};
  TND_TRY(seams::fabric_op_check(op, properties_));
  if (op.kind != fabric_op_kind::receive && !node_->peers.contains(op.peer))
    return status::no_entry;
  TND_TRY(check_region(op));
  if (is_refused())
    return status::again;
  uint32_t const slot = node_->ops.insert(op);
  if (slot == seams::fabric_op_table::no_slot)
    return status::again;
  auto &entry = node_->ops[slot];
  entry.state = fabric_slot_state::posted;
  if (fabric_holds_region(op))
    node_->regions.at(op.region).users++;
  if (op.deadline_ns != TND_NO_DEADLINE) {
    network_->owner.schedule(op.deadline_ns,
                             [self = network_, node = node_, slot, generation = entry.generation] {
                               self->expire(node, slot, generation);
                             });
  }
  start(slot);
  return status::ok;
}

size_t fabric::endpoint::poll(std::span<seams::fabric_completion> completions) {
  std::lock_guard lock{network_->owner.mutex()};
  if (!node_->is_alive)
    return 0;
  network_->handle_requests(*node_);
  return node_->ops.reap(completions);
}

status fabric::endpoint::wait(uint64_t deadline_ns) {
  std::lock_guard lock{network_->owner.mutex()};
  auto &owner = network_->owner;
  bool limited = false;
  for (;;) {
    network_->handle_requests(*node_);
    if (node_->is_alive && node_->ops.has_ready())
      return status::ok;
    if (std::exchange(node_->is_woken, false))
      return status::interrupted;
    if (owner.now_ns() >= deadline_ns)
      return status::timed_out;
    // An empty action at the deadline keeps step() from running past it.
    if (!std::exchange(limited, true) && deadline_ns != TND_NO_DEADLINE)
      owner.schedule(deadline_ns, [] {});
    if (!owner.step())
      return status::timed_out;  // nothing is scheduled
  }
}

void fabric::endpoint::wake() noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  node_->is_woken = true;
}

size_t fabric::endpoint::pending_count() const noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  return node_->ops.pending_count();
}

seams::fabric_counters fabric::endpoint::counters() const noexcept {
  std::lock_guard lock{network_->owner.mutex()};
  return node_->ops.counters();
}

}  // namespace tanada::sim
