// What a server reports about its cluster, and what operators change in it.
#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/replication.hpp"

namespace tanada::poold {

namespace {

// Renewals of a lease come more often than that.
constexpr uint64_t silence_ns_min = 3'000'000'000;
constexpr const char *log_problem = "its log does not work: see its log file";

}  // namespace

wire::pool::locate_reply replication::locate(const std::string &namespace_name) const {
  wire::pool::locate_reply reply;
  auto const map = map_.load();
  if (map == nullptr)
    return reply;
  reply.epoch = map->epoch;
  uint32_t const partition = partition_of(namespace_name);
  lock_guard lock{mutex_};
  if (partition == local_partition) {
    if (auto const server = servers_.find(options_.self.server); server != servers_.end())
      reply.servers.push_back({server->second.address});
    return reply;
  }
  for (const replica &run : map->partitions[partition].replicas)
    if (auto const server = servers_.find(run.server); server != servers_.end())
      reply.servers.push_back({server->second.address});
  for (auto const &[name, server] : servers_)
    if (reply.members.size() < wire::pool::cluster_server_count_max)
      reply.members.push_back({server.address});
  return reply;
}

void replication::describe_partition(
    const partition_record &partition,
    wire::pool::cluster_status_reply &reply,
    std::map<std::string, wire::pool::cluster_server> &servers) const {
  TND_ASSERT(mutex_.is_held());
  auto const entry_of = [&](const replica &run) -> wire::pool::cluster_server & {
    auto const [it, is_new] = servers.try_emplace(run.server);
    if (is_new)
      it->second = {run.server, {}, {}, uint8_t(wire::pool::server_state::away)};
    return it->second;
  };
  size_t running_count = 0, reached_count = 0;
  entry_of(partition.replicas.front()).primary_count++;
  for (const replica &run : partition.replicas) {
    entry_of(run).copy_count++;
    auto const server = servers_.find(run.server);
    bool const is_running = server != servers_.end() && server->second.self == run;
    // A server that was lost is present until its lease ends.
    bool const is_reached = !queues_.contains(run.server) || !unreachable_.contains(run.server);
    running_count += is_running;
    reached_count += is_running && is_reached;
  }
  for (const replica &run : partition.joining)
    entry_of(run).joining_count++;
  reply.missing_count += reply.copies - std::min<uint32_t>(reply.copies, uint32_t(reached_count));
  reply.offline_count += running_count == 0;
  reply.lost_count += partition.was_lost;
}

// Servers by name, without their partitions.
std::map<std::string, wire::pool::cluster_server> replication::describe_servers() const {
  TND_ASSERT(mutex_.is_held());
  using wire::pool::server_state;
  std::map<std::string, wire::pool::cluster_server> servers;
  auto const add = [&](const server_presence &server, server_state state) {
    auto const problem = problems_.find(server.self.server);
    bool const is_linked = queues_.contains(server.self.server);
    wire::pool::cluster_server &entry = servers[server.self.server];
    entry = {server.self.server, server.address, server.domain, uint8_t(state)};
    if (auto const outdated = outdated_.find(server.self.server); outdated != outdated_.end())
      entry.problem = outdated->second;
    if (is_linked && problem != problems_.end() && !problem->second.empty())
      entry.problem = problem->second;
  };
  for (const server_presence &server : known_)
    add(server, server_state::away);
  for (auto const &[name, server] : servers_)
    add(server, server.is_draining != 0 ? server_state::draining : server_state::up);
  auto const self_entry = servers.find(options_.self.server);
  if (self_entry != servers.end() && check_log() != status::ok)
    self_entry->second.problem = log_problem;
  return servers;
}

// A server is emptied when others have its copies and fragments: as many servers as they need must
// stay.
void replication::describe_drains(
    std::map<std::string, wire::pool::cluster_server> &servers) const {
  TND_ASSERT(mutex_.is_held());
  size_t staying_count = 0, fragment_servers = 0;
  for (auto const &[name, server] : servers_)
    staying_count += server.is_draining == 0;
  for (auto const &[name, scheme] : schemes_)
    fragment_servers = std::max<size_t>(fragment_servers, scheme.width());
  for (auto &[name, server] : servers) {
    bool const is_draining = server.state == uint8_t(wire::pool::server_state::draining);
    size_t const copies = server.copy_count > 0 ? map_.load()->copies : 0;
    size_t const needed = server.fragment_count > 0 ? std::max(copies, fragment_servers) : copies;
    if (is_draining && server.problem.empty() && staying_count < needed)
      server.problem = "it cannot be emptied: its copies need " + std::to_string(needed) +
                       " servers that are not draining, and the cluster has " +
                       std::to_string(staying_count);
  }
}

wire::pool::cluster_status_reply replication::describe() const {
  wire::pool::cluster_status_reply reply;
  auto const map = map_.load();
  if (map == nullptr)
    return reply;
  reply.epoch = map->epoch;
  reply.copies = map->copies;
  reply.partition_count = partition_count;
  uint64_t const silence_ns = options_.silence_ns ? options_.silence_ns() : 0;
  reply.silence_ns = silence_ns < silence_ns_min ? 0 : silence_ns;
  lock_guard lock{mutex_};
  auto servers = describe_servers();
  for (const partition_record &partition : map->partitions)
    describe_partition(partition, reply, servers);
  for (auto const &[name, count] : fragment_counts_) {
    auto const server = servers.find(name);
    bool const is_known = server != servers.end();
    if (is_known)
      server->second.fragment_count = count.held;
    // Another server serves the objects of one that does not run, and counts what they lack.
    if (is_known && servers_.contains(name))
      reply.missing_count += count.missing;
  }
  describe_drains(servers);
  for (auto const &[name, scheme] : schemes_)
    reply.erasure.push_back({name, scheme});
  for (auto &[name, server] : servers)
    if (reply.servers.size() < wire::pool::cluster_server_count_max)
      reply.servers.push_back(std::move(server));
  return reply;
}

wire::pool::stripe_places_reply replication::stripe_places() const {
  wire::pool::stripe_places_reply reply;
  auto const map = map_.load();
  if (map == nullptr)
    return reply;
  lock_guard lock{mutex_};
  std::map<std::string, uint8_t> indices;  // by server
  for (auto const &[name, server] : servers_) {
    if (reply.servers.size() == wire::pool::no_stripe_server)
      break;
    indices[name] = uint8_t(reply.servers.size());
    reply.servers.push_back(
        {server.address, server.weight, server.self.run, server.domain, server.is_draining});
  }
  auto const index_of = [&](const std::vector<replica> &replicas, size_t i) {
    auto const it = i < replicas.size() ? indices.find(replicas[i].server) : indices.end();
    return it == indices.end() ? wire::pool::no_stripe_server : it->second;
  };
  for (const partition_record &partition : map->partitions) {
    reply.primaries.push_back(index_of(partition.replicas, 0));
    reply.backups.push_back(index_of(partition.replicas, 1));
  }
  return reply;
}

// A server that has no map yet does not know the others.
status replication::require_map() const {
  return map_.load() != nullptr ? status::ok
                                : fail(status::again, "the server has not joined its cluster yet");
}

status replication::set_draining(const std::string &server,
                                 bool is_draining,
                                 std::function<void(status)> done) {
  TND_TRY(require_map());
  bool is_known = false;
  for (const wire::pool::cluster_server &entry : describe().servers)
    is_known |= entry.name == server;
  if (!is_known)
    return fail(status::no_entry, "the cluster has no server {}", server);
  options_.drain(server, is_draining, std::move(done));
  return status::ok;
}

status replication::remove_server(const std::string &server,
                                  bool is_forced,
                                  std::function<void(status)> done) {
  TND_TRY(require_map());
  bool is_known = false, is_running = false;
  for (const wire::pool::cluster_server &entry : describe().servers) {
    is_known |= entry.name == server;
    is_running |= entry.name == server && entry.state != uint8_t(wire::pool::server_state::away);
  }
  if (!is_known)
    return fail(status::no_entry, "the cluster has no server {}", server);
  if (is_running)
    return fail(status::busy, "server {} runs: drain it and stop it first", server);
  std::vector<server_presence> present;
  {
    lock_guard lock{mutex_};
    for (auto const &[name, entry] : servers_)
      present.push_back(entry);
  }
  uint32_t const sole_count = count_sole_copies(*map_.load(), server, present);
  if (sole_count > 0 && !is_forced)
    return fail(status::busy,
                "server {} may have the only copy of {} of {} partitions",
                server,
                sole_count,
                partition_count);
  if (sole_count > 0)
    log(log_level::warning,
        "pool: {} partitions begin again, empty: server {} is removed by force",
        sole_count,
        server);
  options_.administer(
      {membership::administration::kind::remove_server, server, is_forced, std::move(done)});
  return status::ok;
}

void replication::clear_losses(std::function<void(status)> done) {
  options_.administer({membership::administration::kind::clear_losses, {}, false, std::move(done)});
}

void replication::set_known(std::vector<server_presence> servers) {
  lock_guard lock{mutex_};
  known_ = std::move(servers);
}

void replication::set_outdated(std::map<std::string, std::string> texts) {
  lock_guard lock{mutex_};
  outdated_ = std::move(texts);
}

void replication::report_problem(const replica &peer, const std::string &problem) {
  {
    lock_guard lock{mutex_};
    if (problem.empty())
      unreachable_.erase(peer.server);
    else
      unreachable_.insert(peer.server);
    std::string &reported = problems_[peer.server];
    if (reported == problem)
      return;
    reported = problem;
  }
  if (!problem.empty())
    log(log_level::warning, "pool: server {}: {}", peer.server, problem);
}

}  // namespace tanada::poold
