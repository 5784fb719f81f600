// bench_pool: the memory pool against memcpy, raw TCP and other stores, on one machine over
// loopback.
//
// This program starts every rival, in network, mount and process namespaces of its own if the user
// may create them, and stops it at its end. A rival that is not installed is skipped, and its row
// has the reason.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "rows.hpp"
#include "server.hpp"

namespace bench {
namespace {

struct contestant {
  const char *id, *label;
  field::factory make;
};

constexpr contestant contestants[] = {
    {id::pool_local, "the pool, same node", pool_local_rival},
    {id::pool_tcp, "the pool, TCP", pool_tcp_rival},
    {id::memcpy, "memcpy by one thread", memcpy_rival},
    {id::tcp, "raw TCP", tcp_rival},
    {id::memcached_unix, "memcached, unix socket", memcached_unix_rival},
    {id::memcached_tcp, "memcached, TCP", memcached_tcp_rival},
    {id::nfs, "NFSv3 by nfs-ganesha on tmpfs and libnfs", nfs_rival},
    {id::mooncake, "Mooncake Store, TCP", mooncake_rival},
    {id::mooncake_engine, "Mooncake's transfer engine, TCP", mooncake_engine_rival},
    {id::nixl, "NIXL, shared memory", nixl_rival},
    {id::redis_unix, "Redis, unix socket", redis_unix_rival},
    {id::redis_tcp, "Redis, TCP", redis_tcp_rival},
};

// Whether verbs is implemented in software here: such a device has the name of the network
// interface below it.
bool has_software_verbs() {
  std::error_code none;
  for (auto const &one : std::filesystem::directory_iterator{"/sys/class/infiniband", none})
    if (std::filesystem::exists(one.path() / "parent"))
      return true;
  return false;
}

// The pool over a link, by its stream and by a fabric, beside NFS where it is mounted over the
// link; the other rivals would run only on this machine.
void measure_link(report &out, const rival_options &options) {
  std::string label = "the pool, " + options.provider;
  if (options.provider.find("verbs") != std::string::npos && has_software_verbs())
    label += " ON SOFT-ROCE, NO CARD";
  field all;
  all.add(id::pool_tcp, "the pool, TCP", pool_tcp_rival, options);
  if (!options.provider.empty())
    all.add(id::pool_fabric, label, pool_fabric_rival, options);
  all.add(id::nfs, "NFS", nfs_folder_rival, options);
  all.add(id::nfs_rdma, "NFS over RDMA", nfs_rdma_folder_rival, options);
  link_rows(out, all, options.size_max);
  for (const auto &[id, reason] : all.absent())
    out.add({reason, 0, "figures", "", {}, {}});
}

// Over a link the machine's own network is used.
bool is_over_link(int argc, char **argv) {
  return std::any_of(argv, argv + argc, [](const char *word) {
    std::string_view const text{word};
    return text.rfind("--url", 0) == 0 || text.rfind("--provider", 0) == 0;
  });
}

int run(int argc, char **argv, bool is_isolated) {
  rival_options options;
  std::string json;
  std::vector<std::string> groups{"bulk", "small", "rate", "sizes"}, without;
  CLI::App app{"The pool beside its rivals"};
  app.add_option("--json", json, "Write the figures to this file, not to standard output");
  app.add_option("--mooncake-python",
                 options.mooncake_python,
                 "Python that has the wheel mooncake-transfer-engine-non-cuda")
      ->envname("MOONCAKE_PYTHON")
      ->check(CLI::ExistingFile);
  app.add_option("--nixl-python", options.nixl_python, "Python that has the wheel nixl_cu13")
      ->envname("NIXL_PYTHON")
      ->check(CLI::ExistingFile);
  app.add_option("--size-max", options.size_max, "Largest object, such as 1GiB or 4GiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--rows", groups, "Groups of rows")
      ->delimiter(',')
      ->check(CLI::IsMember({"bulk", "small", "rate", "sizes"}));
  app.add_option("--without", without, "Contestants to leave out, such as nfs,mooncake")
      ->delimiter(',');
  app.add_option("--url",
                 options.url,
                 "Only the pool, over a link: pool://host:port/namespace of a daemon that runs");
  app.add_option("--provider",
                 options.provider,
                 "Only the pool, over a link: libfabric's provider, such as verbs;ofi_rxm");
  app.add_option(
      "--fabric-node", options.fabric_node, "Without --url: the daemon's address in the fabric");
  app.add_option("--nfs", options.nfs_folder, "A folder that is mounted over the same link")
      ->check(CLI::ExistingDirectory);
  app.add_option("--nfs-rdma", options.nfs_rdma_folder, "The same with the option rdma of NFS")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  if (is_over_link(argc, argv)) {
    report out{"pool_link", options.url.empty() ? "loopback" : options.url};
    measure_link(out, options);
    return out.finish(argc, argv);
  }

  options.is_isolated = is_isolated;
  field all;
  for (const contestant &each : contestants)
    if (std::find(without.begin(), without.end(), each.id) == without.end())
      all.add(each.id, each.label, each.make, options);
    else
      all.forgo(each.id, each.label);
  report out{"pool", "loopback"};
  std::set<std::string> const wanted(groups.begin(), groups.end());
  if (wanted.count("bulk") != 0)
    bulk_rows(out, all);
  if (wanted.count("small") != 0)
    small_rows(out, all);
  if (wanted.count("rate") != 0)
    rate_rows(out, all);
  if (wanted.count("sizes") != 0)
    size_rows(out, all, options.size_max);
  for (const auto &[id, reason] : all.absent())
    if (std::find(without.begin(), without.end(), id) == without.end())
      out.add({reason, 0, "figures", "", {}, {}});
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  auto const body = [=](bool is_isolated) {
    return bench::guarded("bench_pool", [=] { return bench::run(argc, argv, is_isolated); });
  };
  return bench::is_over_link(argc, argv) ? body(false) : bench::in_isolation(body);
}
