// The cluster's map: its encoding, the placement of partitions, and its changes.
#include "products/poold/cluster/map.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/assert.hpp"
#include "core/wire/codec.hpp"
#include "core/wire/pool.hpp"

namespace tanada::poold {

namespace {

// FNV-1a, then a finalizer: the low bits depend on all of the text.
uint64_t hash_text(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325u ^ seed;
  for (char const byte : text)
    hash = (hash ^ uint8_t(byte)) * 0x100000001B3u;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  return hash ^ (hash >> 31);
}

template <class Message>
std::string encode_text(const Message &message) {
  std::vector<std::byte> bytes;
  wire::encode(message, bytes);
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

template <class Message>
result<Message> decode_text(std::string_view bytes) {
  Message message;
  TND_TRY(wire::decode({reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}, message));
  return message;
}

// Weighted rendezvous hashing: with equal weights the order is that of the hashes. A server gets
// the first place in proportion to its weight, and the places of others do not depend on it.
double score_of(uint32_t partition, const server_presence &server) {
  uint64_t const hash = hash_text(server.self.server, partition + 1);
  double const uniform = (double(hash >> 11) + 0.5) / double(uint64_t{1} << 53);
  return double(std::max<uint64_t>(server.weight, 1)) / -std::log(uniform);
}

const std::string &domain_of(const server_presence &server) {
  return server.domain.empty() ? server.self.server : server.domain;
}

const server_presence *find_run(const std::vector<server_presence> &present, const replica &run) {
  auto const it = std::find_if(present.begin(), present.end(), [&](const server_presence &server) {
    return server.self == run;
  });
  return it == present.end() ? nullptr : &*it;
}

const server_presence *find_server(const std::vector<server_presence> &present,
                                   const std::string &name) {
  auto const it = std::find_if(present.begin(), present.end(), [&](const server_presence &server) {
    return server.self.server == name;
  });
  return it == present.end() ? nullptr : &*it;
}

bool contains(const std::vector<replica> &list, const replica &wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

void add_replica(partition_record &partition, const replica &added, bool is_durable) {
  partition.replicas.push_back(added);
  partition.is_durable.push_back(is_durable ? 1 : 0);
}

void erase_replica(partition_record &partition, size_t index) {
  TND_ASSERT(index < partition.replicas.size());
  partition.replicas.erase(partition.replicas.begin() + long(index));
  partition.is_durable.erase(partition.is_durable.begin() + long(index));
}

// The replicas of a partition of which none runs any more.
struct survivors {
  bool may_be_left = false;  // another server may still have the data
  const server_presence *whole = nullptr, *damaged = nullptr;
};

survivors find_survivors(const partition_record &partition,
                         const std::vector<server_presence> &present) {
  survivors servers;
  for (size_t i = 0; i < partition.replicas.size(); i++) {
    const server_presence *const server = find_server(present, partition.replicas[i].server);
    if (server == nullptr) {
      servers.may_be_left = true;
      continue;
    }
    bool const keeps_data = partition.is_durable[i] != 0 && server->is_durable != 0 &&
                            log_origin(server->origin) != log_origin::new_log;
    if (!keeps_data)
      continue;
    auto &place =
        log_origin(server->origin) == log_origin::damaged ? servers.damaged : servers.whole;
    place = place == nullptr ? server : place;
  }
  return servers;
}

// No replica runs any more. One that was durable has all of its data when it runs again, unless its
// disk was replaced. One whose log is damaged counts only if no other can come back. If none has
// the data, they are lost once all those servers run again without them.
void revive(partition_record &partition,
            uint64_t epoch,
            const std::vector<server_presence> &present) {
  survivors const servers = find_survivors(partition, present);
  const server_presence *survivor = servers.whole;
  if (survivor == nullptr && !servers.may_be_left)
    survivor = servers.damaged;
  if (survivor == nullptr && !servers.may_be_left) {
    survivor = find_server(present, partition.replicas.front().server);
    partition.was_lost = 1;
  }
  if (survivor == nullptr)
    return;
  partition.replicas.clear();
  partition.is_durable.clear();
  partition.joining.clear();
  add_replica(partition, survivor->self, survivor->is_durable != 0);
  partition.term = epoch;
}

void remove_absent(partition_record &partition,
                   uint64_t epoch,
                   const std::vector<server_presence> &present) {
  auto const is_present = [&](const replica &run) {
    return find_run(present, run) != nullptr;
  };
  if (std::none_of(partition.replicas.begin(), partition.replicas.end(), is_present))
    return revive(partition, epoch, present);
  replica const primary = partition.replicas.front();
  for (size_t i = partition.replicas.size(); i-- > 0;)
    if (!is_present(partition.replicas[i]))
      erase_replica(partition, i);
  std::erase_if(partition.joining, [&](const replica &run) { return !is_present(run); });
  if (partition.replicas.front() != primary)
    partition.term = epoch;
}

bool is_among(const std::vector<const server_presence *> &servers, const replica &run) {
  return std::any_of(
      servers.begin(), servers.end(), [&](auto const *server) { return server->self == run; });
}

// Let desired servers join.
void let_join(partition_record &partition, const std::vector<const server_presence *> &desired) {
  for (const server_presence *const server : desired)
    if (!contains(partition.replicas, server->self) && !contains(partition.joining, server->self))
      partition.joining.push_back(server->self);
  std::erase_if(partition.joining, [&](const replica &run) { return !is_among(desired, run); });
}

}  // namespace

static_assert(partition_count == wire::pool::stripe_partition_count);

uint32_t partition_of(std::string_view namespace_name) {
  if (namespace_name.find('/') != std::string_view::npos) {
    std::string const name{namespace_name};
    if (wire::pool::is_fragment_space(name))
      return local_partition;
    if (auto const stripes = wire::pool::stripe_space_parse(name))
      return stripes->partition;
  }
  return uint32_t(hash_text(namespace_name, 0) % partition_count);
}

std::string encode_map(const cluster_map &map) {
  return encode_text(map);
}

result<cluster_map> decode_map(std::string_view bytes) {
  auto decoded = decode_text<cluster_map>(bytes);
  if (!decoded.ok())
    return decoded;
  const cluster_map &map = decoded.value();
  if (map.epoch == 0 || map.copies == 0 || map.partitions.size() != partition_count)
    return status::protocol;
  for (const partition_record &partition : map.partitions)
    if (partition.replicas.empty() || partition.is_durable.size() != partition.replicas.size())
      return status::protocol;
  return decoded;
}

std::string encode_presence(const server_presence &presence) {
  return encode_text(presence);
}

result<server_presence> decode_presence(std::string_view bytes) {
  return decode_text<server_presence>(bytes);
}

std::vector<const server_presence *> desired_servers(uint32_t partition,
                                                     uint32_t copies,
                                                     const std::vector<server_presence> &present) {
  std::vector<std::pair<double, const server_presence *>> order;
  for (const server_presence &server : present)
    if (server.is_draining == 0)
      order.emplace_back(score_of(partition, server), &server);
  std::sort(order.begin(), order.end(), [](auto const &lhs, auto const &rhs) {
    return lhs.first != rhs.first ? lhs.first > rhs.first
                                  : lhs.second->self.server < rhs.second->self.server;
  });
  std::vector<const server_presence *> chosen;
  std::set<std::string> domains;
  for (bool const needs_new_domain : {true, false}) {
    for (auto const &[score, server] : order) {
      bool const is_chosen = std::find(chosen.begin(), chosen.end(), server) != chosen.end();
      bool const is_near = domains.contains(domain_of(*server));
      if (chosen.size() == copies || is_chosen || (needs_new_domain && is_near))
        continue;
      chosen.push_back(server);
      domains.insert(domain_of(*server));
    }
  }
  return chosen;
}

cluster_map first_map(const server_presence &creator, uint32_t copies) {
  TND_ASSERT(copies > 0);
  cluster_map map;
  map.epoch = 1;
  map.copies = copies;
  map.partitions.resize(partition_count);
  for (partition_record &partition : map.partitions) {
    partition.term = map.epoch;
    add_replica(partition, creator.self, creator.is_durable != 0);
  }
  return map;
}

bool advance_map(cluster_map &map, const std::vector<server_presence> &present) {
  TND_ASSERT(map.partitions.size() == partition_count);
  std::vector<partition_record> const before = map.partitions;
  for (uint32_t i = 0; i < partition_count; i++) {
    partition_record &partition = map.partitions[i];
    remove_absent(partition, map.epoch, present);
    bool const has_primary = find_run(present, partition.replicas.front()) != nullptr;
    if (has_primary)
      let_join(partition, desired_servers(i, map.copies, present));
  }
  return map.partitions != before;
}

std::vector<replica> surplus_replicas(const partition_record &partition,
                                      const std::vector<const server_presence *> &desired,
                                      uint32_t copies) {
  auto const &replicas = partition.replicas;
  auto const desired_count = std::count_if(
      replicas.begin(), replicas.end(), [&](auto const &run) { return is_among(desired, run); });
  std::vector<replica> surplus;
  if (size_t(desired_count) < desired.size())
    return surplus;
  for (size_t i = replicas.size(); i-- > 1 && replicas.size() - surplus.size() > copies;)
    if (!is_among(desired, replicas[i]))
      surplus.push_back(replicas[i]);
  return surplus;
}

uint32_t count_sole_copies(const cluster_map &map,
                           const std::string &server,
                           const std::vector<server_presence> &present) {
  uint32_t count = 0;
  for (const partition_record &partition : map.partitions) {
    bool is_among_replicas = false, has_other = false;
    for (size_t i = 0; i < partition.replicas.size(); i++) {
      const replica &run = partition.replicas[i];
      bool const is_server = run.server == server;
      is_among_replicas |= is_server;
      has_other |=
          !is_server && (partition.is_durable[i] != 0 || find_run(present, run) != nullptr);
    }
    count += is_among_replicas && !has_other;
  }
  return count;
}

void forget_server(cluster_map &map,
                   const std::string &server,
                   const std::vector<server_presence> &present) {
  for (uint32_t i = 0; i < map.partitions.size(); i++) {
    partition_record &partition = map.partitions[i];
    std::erase_if(partition.joining, [&](const replica &run) { return run.server == server; });
    auto const desired = desired_servers(i, 1, present);
    for (size_t k = partition.replicas.size(); k-- > 0;) {
      if (partition.replicas[k].server != server ||
          (partition.replicas.size() == 1 && desired.empty()))
        continue;
      erase_replica(partition, k);
      partition.term = k == 0 ? map.epoch : partition.term;
    }
    if (!partition.replicas.empty())
      continue;
    add_replica(partition, desired[0]->self, desired[0]->is_durable != 0);
    std::erase(partition.joining, desired[0]->self);
    partition.was_lost = 1;
  }
}

bool complete_join(cluster_map &map, uint32_t partition, const replica &joined, bool is_durable) {
  TND_ASSERT(partition < map.partitions.size());
  partition_record &record = map.partitions[partition];
  if (std::erase(record.joining, joined) == 0)
    return false;
  add_replica(record, joined, is_durable);
  return true;
}

bool remove_replica(cluster_map &map, uint32_t partition, const replica &removed) {
  TND_ASSERT(partition < map.partitions.size());
  partition_record &record = map.partitions[partition];
  if (std::erase(record.joining, removed) > 0)
    return true;
  for (size_t i = 1; i < record.replicas.size(); i++)
    if (record.replicas[i] == removed) {
      erase_replica(record, i);
      return true;
    }
  return false;
}

bool hand_over(cluster_map &map, uint32_t partition, const replica &primary, const replica &next) {
  TND_ASSERT(partition < map.partitions.size());
  partition_record &record = map.partitions[partition];
  auto const it = std::find(record.replicas.begin(), record.replicas.end(), next);
  if (record.replicas.front() != primary || it == record.replicas.begin() ||
      it == record.replicas.end())
    return false;
  size_t const index = size_t(it - record.replicas.begin());
  std::swap(record.replicas[0], record.replicas[index]);
  std::swap(record.is_durable[0], record.is_durable[index]);
  record.term = map.epoch;
  return true;
}

}  // namespace tanada::poold
