#include "backends/libfabric/libfabric_peers.hpp"

#include <algorithm>
#include <cstring>

#include "backends/libfabric/shm_name.hpp"

namespace tanada::port {
namespace {

constexpr size_t unanswered_max = 64;
constexpr size_t shm_name_size_max = 128;
constexpr std::string_view shm_prefix = "fi_shm://";

// A name that shm_open may be given: the peer chose it.
bool is_shm_address(std::string_view text) {
  if (text.size() > shm_name_size_max || !text.starts_with(shm_prefix) || text.back() != '\0')
    return false;
  text = text.substr(shm_prefix.size(), text.size() - shm_prefix.size() - 1);
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return c > ' ' && c < 127 && c != '/'; });
}

}  // namespace

status libfabric_peers::check(std::span<const std::byte> address,
                              std::span<const std::byte> own) const {
  if (address.empty() || address.size() > fabric_address_size_max)
    return status::invalid;
  if (domain_.is_shm()) {
    return is_shm_address({reinterpret_cast<const char *>(address.data()), address.size()})
               ? status::ok
               : status::invalid;
  }
  // libfabric takes as many bytes as its format has, whatever came. Those of sockets begin with
  // their family.
  if (address.size() != own.size())
    return status::invalid;
  auto const format = domain_.info().addr_format;
  bool const is_socket =
      format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
  return !is_socket || std::memcmp(address.data(), own.data(), 2) == 0 ? status::ok
                                                                       : status::invalid;
}

result<fabric_peer> libfabric_peers::add(std::span<const std::byte> address,
                                         std::span<const std::byte> own) {
  TND_TRY(check(address, own));
  std::string bytes{reinterpret_cast<const char *>(address.data()), address.size()};
  if (auto const known = by_bytes_.find(bytes); known != by_bytes_.end()) {
    if (peers_.at(known->second).removed)
      return status::busy;
    return known->second;
  }
  if (by_bytes_.size() >= (domain_.is_shm() ? count_max_shm : count_max))
    return status::no_space;
  fi_addr_t made = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(domain_.addresses(), bytes.data(), 1, &made, 0, nullptr) != 1)
    return status::invalid;
  libfabric_peer peer;
  peer.id = next_id_++;
  peer.address = made;
  peer.address_bytes = bytes;
  if (domain_.is_shm())
    peer.process = shm_name_owner(bytes);
  by_bytes_.emplace(std::move(bytes), peer.id);
  by_address_[made] = peer.id;
  auto const id = peer.id;
  peers_.emplace(id, std::move(peer));
  return id;
}

void libfabric_peers::detach(libfabric_peer &which) {
  which.removed = true;
  if (!domain_.ends_on_remove())
    return;
  by_address_.erase(which.address);
  (void)fi_av_remove(domain_.addresses(), &which.address, 1, 0);
}

void libfabric_peers::forget(fabric_peer id) {
  auto const at = peers_.find(id);
  TND_ASSERT(at != peers_.end() && at->second.in_flight == 0);
  auto &which = at->second;
  if (!domain_.ends_on_remove()) {
    lane_drop(std::move(which.lane));
    by_address_.erase(which.address);
    (void)fi_av_remove(domain_.addresses(), &which.address, 1, 0);
  }
  by_bytes_.erase(which.address_bytes);
  peers_.erase(at);
}

bool libfabric_peers::reconnect(libfabric_peer &which) {
  by_address_.erase(which.address);
  (void)fi_av_remove(domain_.addresses(), &which.address, 1, 0);
  if (fi_av_insert(domain_.addresses(), which.address_bytes.data(), 1, &which.address, 0,
                   nullptr) != 1)
    return false;
  by_address_[which.address] = which.id;
  which.broken = false;
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
  for (auto &[id, each] : peers_)
    each.lane.reset();
}

libfabric_peer *libfabric_peers::find_any(fabric_peer id) {
  auto const at = peers_.find(id);
  return at == peers_.end() ? nullptr : &at->second;
}

libfabric_peer *libfabric_peers::find(fabric_peer id) {
  auto *const which = find_any(id);
  return which == nullptr || which->removed ? nullptr : which;
}

fabric_peer libfabric_peers::by_address(fi_addr_t address) const {
  auto const at = by_address_.find(address);
  return at == by_address_.end() ? no_fabric_peer : at->second;
}

}  // namespace tanada::port
