// backends/libfabric/libfabric_peers.cc: adds, removes and reconnects the peers of an endpoint.
#include "backends/libfabric/libfabric_peers.hpp"

#include <algorithm>
#include <cstring>

#include "backends/libfabric/shm_name.hpp"
#include "core/base/assert.hpp"

namespace tanada::backends {
namespace {

constexpr size_t unanswered_max = 64;
constexpr size_t shm_name_size_max = 128;
constexpr std::string_view shm_prefix = "fi_shm://";

// Validates a name for shm_open, because the peer chose it.
bool is_shm_address(std::string_view text) {
  if (text.size() > shm_name_size_max || !text.starts_with(shm_prefix) || text.back() != '\0')
    return false;
  text = text.substr(shm_prefix.size(), text.size() - shm_prefix.size() - 1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 127 && c != '/';
  });
}

}  // namespace

status libfabric_peers::check(std::span<const std::byte> address,
                              std::span<const std::byte> own_address) const {
  if (address.empty() || address.size() > seams::fabric_address_size_max)
    return status::invalid;
  if (domain_.is_shm()) {
    return is_shm_address({reinterpret_cast<const char *>(address.data()), address.size()})
               ? status::ok
               : status::invalid;
  }
  // libfabric reads as many bytes as its address format has, whatever length was received. Socket
  // addresses begin with their family.
  if (address.size() != own_address.size())
    return status::invalid;
  auto const format = domain_.info().addr_format;
  bool const is_socket =
      format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
  return !is_socket || std::memcmp(address.data(), own_address.data(), 2) == 0 ? status::ok
                                                                               : status::invalid;
}

result<seams::fabric_peer> libfabric_peers::add(std::span<const std::byte> address,
                                                std::span<const std::byte> own_address) {
  TND_TRY(check(address, own_address));
  std::string bytes{reinterpret_cast<const char *>(address.data()), address.size()};
  if (auto const it = by_bytes_.find(bytes); it != by_bytes_.end()) {
    if (peers_.at(it->second).removed)
      return status::busy;
    return it->second;
  }
  if (by_bytes_.size() >= (domain_.is_shm() ? count_max_shm : count_max))
    return status::no_space;
  fi_addr_t inserted = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(domain_.addresses(), bytes.data(), 1, &inserted, 0, nullptr) != 1)
    return status::invalid;
  libfabric_peer peer;
  peer.id = next_id_++;
  peer.address = inserted;
  peer.address_bytes = bytes;
  if (domain_.is_shm())
    peer.process = shm_name_owner(bytes);
  by_bytes_.emplace(std::move(bytes), peer.id);
  by_address_[inserted] = peer.id;
  auto const id = peer.id;
  peers_.emplace(id, std::move(peer));
  return id;
}

void libfabric_peers::detach(libfabric_peer &peer) {
  TND_ASSERT(!peer.removed);
  peer.removed = true;
  if (!domain_.ends_on_remove())
    return;
  by_address_.erase(peer.address);
  (void)fi_av_remove(domain_.addresses(), &peer.address, 1, 0);
}

void libfabric_peers::erase(seams::fabric_peer id) {
  auto const it = peers_.find(id);
  TND_ASSERT(it != peers_.end() && it->second.in_flight == 0);
  auto &peer = it->second;
  if (!domain_.ends_on_remove()) {
    lane_drop(std::move(peer.lane));
    by_address_.erase(peer.address);
    (void)fi_av_remove(domain_.addresses(), &peer.address, 1, 0);
  }
  by_bytes_.erase(peer.address_bytes);
  peers_.erase(it);
}

bool libfabric_peers::reconnect(libfabric_peer &peer) {
  by_address_.erase(peer.address);
  (void)fi_av_remove(domain_.addresses(), &peer.address, 1, 0);
  if (fi_av_insert(domain_.addresses(), peer.address_bytes.data(), 1, &peer.address, 0, nullptr) !=
      1)
    return false;
  by_address_[peer.address] = peer.id;
  peer.broken = false;
  return true;
}

void libfabric_peers::lane_drop(std::shared_ptr<shm_lane> lane) {
  if (!lane || lane->answered)
    return;
  unanswered_.push_back(std::move(lane));
  if (unanswered_.size() > unanswered_max)
    unanswered_.pop_front();
}

void libfabric_peers::lanes_close() {
  unanswered_.clear();
  for (auto &[id, entry] : peers_)
    entry.lane.reset();
}

libfabric_peer *libfabric_peers::find_any(seams::fabric_peer id) {
  auto const it = peers_.find(id);
  return it == peers_.end() ? nullptr : &it->second;
}

libfabric_peer *libfabric_peers::find(seams::fabric_peer id) {
  auto *const peer = find_any(id);
  return peer == nullptr || peer->removed ? nullptr : peer;
}

seams::fabric_peer libfabric_peers::find_by_address(fi_addr_t address) const {
  auto const it = by_address_.find(address);
  return it == by_address_.end() ? seams::no_fabric_peer : it->second;
}

}  // namespace tanada::backends
