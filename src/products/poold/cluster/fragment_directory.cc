// The places of fragments.
#include "products/poold/cluster/fragment_directory.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/pool/fragment_placement.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t report_period_count = 3;  // after which a place does not count any more
constexpr uint64_t recent_period_count = 2;  // in which another server has reported what it keeps
constexpr size_t places_size_max = wire::pool::body_size_max - 1024;

}  // namespace

void fragment_directory::set_servers(const std::vector<server_presence> &servers) {
  lock_guard lock{mutex_};
  servers_.clear();
  for (const server_presence &server : servers)
    servers_[server.self.server] = server;
}

bool fragment_directory::counts(const holder &candidate, uint64_t now_ns) const {
  TND_ASSERT(mutex_.is_held());
  auto const server = servers_.find(candidate.server.server);
  return server != servers_.end() && server->second.self == candidate.server &&
         now_ns < candidate.noted_ns + report_period_count * period_ns_;
}

bool fragment_directory::stays(const holder &candidate) const {
  TND_ASSERT(mutex_.is_held());
  auto const server = servers_.find(candidate.server.server);
  return server != servers_.end() && server->second.is_draining == 0;
}

// A durable server has its fragments also in its next run.
void fragment_directory::add(const striped_key &key,
                             const wire::pool::stripe_manifest &manifest,
                             uint64_t now_ns) {
  lock_guard lock{mutex_};
  object_places &target = objects_[key];
  if (std::exchange(target.is_added, true))
    return;
  auto const layout = manifest.layout();
  for (uint32_t i = 0; i < manifest.places.size(); i++) {
    const wire::pool::fragment_server &put_on = manifest.servers[manifest.places[i]];
    auto const server = std::find_if(servers_.begin(), servers_.end(), [&](auto const &entry) {
      return entry.second.address == put_on.address;
    });
    bool const is_empty = layout.size_of(i) == 0;
    if (is_empty || server == servers_.end())
      continue;
    const server_presence &present = server->second;
    bool const is_kept = present.self.run == put_on.run || present.is_durable != 0;
    auto &holders = target.fragments[i];
    bool const is_known = std::any_of(holders.begin(), holders.end(), [&](const holder &entry) {
      return entry.server == present.self;
    });
    if (is_kept && !is_known)
      holders.push_back({present.self, now_ns, false});
  }
}

bool fragment_directory::contains(const striped_key &key) const {
  lock_guard lock{mutex_};
  auto const known = objects_.find(key);
  return known != objects_.end() && known->second.is_added;
}

void fragment_directory::retain(const std::function<bool(const striped_key &key)> &filter) {
  std::vector<striped_key> keys;
  {
    lock_guard lock{mutex_};
    for (auto const &[key, entry] : objects_)
      keys.push_back(key);
  }
  std::erase_if(keys, filter);
  lock_guard lock{mutex_};
  for (const striped_key &key : keys)
    objects_.erase(key);
}

// Of two servers with the same fragment, any two primaries let the same one keep it.
bool fragment_directory::is_better(const report &received, const holder &rival) const {
  TND_ASSERT(mutex_.is_held());
  bool const is_staying = stays({received.server}), is_rival_staying = stays(rival);
  if (is_staying != is_rival_staying)
    return is_staying;
  auto const rank_of = [&](const replica &server) {
    return pool::fragment_rank(server.server, received.key.second, received.index);
  };
  return rank_of(received.server) < rank_of(rival.server);
}

bool fragment_directory::add_report(const report &received, uint64_t now_ns) {
  lock_guard lock{mutex_};
  auto &holders = objects_[received.key].fragments[received.index];
  std::erase_if(holders, [&](const holder &entry) {
    mutex_.assert_held();
    return entry.server == received.server || !counts(entry, now_ns);
  });
  bool const is_surplus = std::any_of(holders.begin(), holders.end(), [&](const holder &entry) {
    mutex_.assert_held();
    bool const is_recent = now_ns < entry.noted_ns + recent_period_count * period_ns_;
    return entry.is_reported && is_recent && !is_better(received, entry);
  });
  if (!is_surplus)
    holders.push_back({received.server, now_ns, true});
  return !is_surplus;
}

std::vector<fragment_directory::gap> fragment_directory::find_gaps(
    const striped_key &key, const wire::pool::erasure_layout &layout, uint64_t now_ns) const {
  lock_guard lock{mutex_};
  std::vector<gap> gaps;
  auto const known = objects_.find(key);
  for (uint32_t i = 0; i < layout.fragment_count(); i++) {
    if (layout.size_of(i) == 0)
      continue;
    bool is_missing = true, is_staying = false;
    if (known != objects_.end()) {
      if (auto const entry = known->second.fragments.find(i);
          entry != known->second.fragments.end())
        for (const holder &candidate : entry->second) {
          bool const is_there = counts(candidate, now_ns);
          is_missing = is_missing && !is_there;
          is_staying = is_staying || (is_there && stays(candidate));
        }
    }
    if (!is_staying)
      gaps.push_back({i, is_missing});
  }
  return gaps;
}

std::multimap<uint32_t, std::string> fragment_directory::holders_of(
    const striped_key &key,
    const wire::pool::erasure_layout &layout,
    uint64_t group,
    uint64_t now_ns) const {
  lock_guard lock{mutex_};
  std::multimap<uint32_t, std::string> names;
  auto const known = objects_.find(key);
  if (known == objects_.end())
    return names;
  uint32_t const begin = uint32_t(group * layout.scheme.width());
  auto const &fragments = known->second.fragments;
  auto const end = fragments.lower_bound(begin + layout.scheme.width());
  for (auto it = fragments.lower_bound(begin); it != end; ++it)
    for (const holder &candidate : it->second)
      if (counts(candidate, now_ns))
        names.emplace(it->first, candidate.server.server);
  return names;
}

uint8_t fragment_directory::index_of(const std::string &address,
                                     wire::pool::fragment_places_reply &reply,
                                     std::map<std::string, uint8_t> &indices,
                                     size_t &size) {
  if (auto const known = indices.find(address); known != indices.end())
    return known->second;
  size_t const added_size = address.size() + sizeof(uint16_t);
  if (size + added_size >= places_size_max || reply.servers.size() >= wire::pool::no_stripe_server)
    return wire::pool::no_stripe_server;
  size += added_size;
  uint8_t const index = uint8_t(reply.servers.size());
  reply.servers.push_back({address});
  indices[address] = index;
  return index;
}

// Bounded by the size of a reply.
wire::pool::fragment_places_reply fragment_directory::places_of(const striped_key &key,
                                                                uint64_t now_ns) const {
  lock_guard lock{mutex_};
  wire::pool::fragment_places_reply reply;
  auto const known = objects_.find(key);
  if (known == objects_.end() || known->second.fragments.empty())
    return reply;
  size_t size = known->second.fragments.rbegin()->first + size_t{1};
  if (size > wire::pool::fragment_count_max)
    return reply;
  reply.places.assign(size, wire::pool::no_stripe_server);
  std::map<std::string, uint8_t> indices;  // by address
  for (auto const &[index, holders] : known->second.fragments)
    for (const holder &candidate : holders)
      if (counts(candidate, now_ns))
        reply.places[index] =
            index_of(servers_.find(candidate.server.server)->second.address, reply, indices, size);
  return reply;
}

}  // namespace tanada::poold
