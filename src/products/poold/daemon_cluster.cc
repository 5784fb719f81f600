// The pool daemon as a server of a cluster: its connection to etcd, its key and its presence.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "backends/etcd/etcd_coordinator.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/identity.hpp"
#include "products/pool/address.hpp"
#include "products/poold/daemon.hpp"

namespace tanada::poold {

namespace {

constexpr uint32_t copies_max = 3;
constexpr uint64_t stripe_size_min = 64 << 10, stripe_size_max = uint64_t{64} << 30;
constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t lease_ns_min = 2 * second_ns, lease_ns_max = 600 * second_ns;
constexpr uint64_t join_ns_max = 15 * second_ns;

result<std::string> read_password(const std::string &path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line) || line.empty())
    return fail(status::no_entry, "{}: no password can be read", path);
  return line;
}

// The servers of a cluster prove themselves to each other with a key for all namespaces.
status choose_key(const std::vector<pool::key> &keys,
                  const std::string &key_file,
                  std::optional<pool::key> &chosen) {
  for (const pool::key &candidate : keys)
    if (candidate.can_write && candidate.allows_all() && !chosen)
      chosen = candidate;
  if (keys.empty() || chosen)
    return status::ok;
  return fail(status::access,
              "the servers of a cluster need a key for all namespaces: add a line \"ID SECRET rw "
              "*\" to {}",
              key_file);
}

}  // namespace

journal *daemon::top_journal() {
  return node_ != nullptr ? &node_->changes() : static_cast<journal *>(journal_.get());
}

// Where others reach this server, which is also its name in the cluster.
std::string daemon::advertised_address() const {
  if (!options_.advertise.empty())
    return options_.advertise;
  bool const is_v6 = options_.listen.find(':') != std::string::npos;
  return (is_v6 ? "[" + options_.listen + "]" : options_.listen) + ":" +
         std::to_string(options_.port);
}

// `cluster_name` is that of the URL.
status daemon::open_coordinator(std::string &cluster_name) {
  auto const location = backends::etcd_url_parse(options_.cluster);
  if (!location.ok())
    return location.error();
  backends::etcd_options etcd;
  etcd.endpoints = location.value().endpoints;
  etcd.uses_tls = location.value().uses_tls;
  etcd.ca_file = options_.etcd_ca;
  etcd.certificate_file = options_.etcd_certificate;
  etcd.key_file = options_.etcd_key;
  etcd.user = options_.etcd_user;
  if (!options_.etcd_password_file.empty()) {
    auto password = read_password(options_.etcd_password_file);
    if (!password.ok())
      return password.error();
    etcd.password = std::move(password).value();
  }
  auto store = backends::etcd_coordinator_create(etcd);
  if (!store.ok())
    return store.error();
  coordinator_ = std::move(store).value();
  cluster_name = location.value().cluster_name;
  return status::ok;
}

namespace {

status check_cluster_options(const daemon_options &options) {
  if (options.port == 0 && options.advertise.empty())
    return fail(status::invalid,
                "a server of a cluster is known by its address: give --port or --advertise");
  if (options.lease_ns < lease_ns_min || options.lease_ns > lease_ns_max)
    return fail(status::invalid, "--lease is 2s to 10m");
  if (options.copies < 1 || options.copies > copies_max)
    return fail(status::invalid, "--copies is 1 to {}", copies_max);
  return status::ok;
}

}  // namespace

status daemon::check_stripe() const {
  uint64_t const size = options_.stripe_size;
  bool const is_sane = size == 0 || (size >= stripe_size_min && size <= stripe_size_max);
  return is_sane ? status::ok : fail(status::invalid, "--stripe is 64KiB to 64GiB, or 0");
}

status daemon::open_cluster() {
  if (options_.cluster.empty())
    return status::ok;
  TND_TRY(check_cluster_options(options_));
  std::string cluster_name;
  TND_TRY(open_coordinator(cluster_name));
  auto keys = read_keys(options_.key_file);
  if (!keys.ok())
    return keys.error();
  cluster_node::options settings;
  TND_TRY(choose_key(keys.value(), options_.key_file, settings.key));
  settings.member = make_membership(cluster_name);
  settings.repair_bandwidth = options_.repair_bandwidth;
  if (journal_ != nullptr) {
    TND_ASSIGN(settings.member.identity, identity_read(log_folder()));
  }
  settings.dial = [](const std::string &address, uint64_t deadline_ns) {
    return pool::dial_address(address, deadline_ns);
  };
  settings.fabric = {.provider = options_.fabric, .node = options_.fabric_node};
  node_ = std::make_unique<cluster_node>(std::move(settings), *coordinator_, journal_.get());
  return status::ok;
}

void daemon::report_cluster(pool::pool_report &current) const {
  if (node_ == nullptr)
    return;
  auto const described = node_->changes().describe();
  static constexpr const char *states[] = {"up", "draining", "away"};
  pool::pool_report::cluster_state state;
  state.copies = described.copies;
  state.partition_count = described.partition_count;
  state.missing_count = described.missing_count;
  state.offline_count = described.offline_count;
  state.lost_count = described.lost_count;
  state.silence_ns = described.silence_ns;
  state.repaired_size = node_->changes().repaired_size();
  for (const wire::pool::cluster_server &server : described.servers)
    state.servers.push_back({server.name,
                             server.domain,
                             states[std::min<size_t>(server.state, std::size(states) - 1)],
                             server.problem,
                             server.primary_count,
                             server.copy_count,
                             server.joining_count});
  current.cluster = std::move(state);
}

// The node starts once the objects of the backing are restored.
status daemon::join_cluster() {
  if (node_ == nullptr)
    return status::ok;
  node_->set_has_objects(objects_->statistics().object_count > 0);
  node_->set_has_losses(journal_ != nullptr && journal_->has_losses());
  node_->start();
  return node_->await_map(join_ns_max);
}

membership_options daemon::make_membership(const std::string &cluster_name) const {
  membership_options member;
  member.prefix = "/tanada/" + cluster_name + "/";
  pool::bytes32 const random = pool::random_bytes();
  std::memcpy(&member.self.self.run, random.data(), sizeof member.self.self.run);
  member.self.address = advertised_address();
  member.self.self.server = member.self.address;
  member.self.domain = options_.domain;
  member.self.weight = std::max<uint64_t>(options_.size >> 20, 1);
  member.self.is_durable = journal_ != nullptr ? 1 : 0;
  member.protocol = options_.protocol;
  member.copies = options_.copies;
  member.new_identity = identity_create();
  member.may_create_anew = options_.is_new_cluster;
  if (journal_ != nullptr)
    member.store_identity = [folder = log_folder()](const std::string &identity) {
      return identity_write(folder, identity);
    };
  member.lease_s = (options_.lease_ns + second_ns - 1) / second_ns;
  return member;
}

}  // namespace tanada::poold
