// bench_pool: the memory pool beside memcpy, raw TCP and other people's stores, on one machine over loopback.
//
// Every rival is started by this program, in a network, mounts and processes of its own where the user may make them, and is
// stopped by its end. One that is not installed is left out, with a row that says so.
#include <CLI/CLI.hpp>
#include <set>

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

int run(int argc, char **argv, bool is_isolated) {
  rival_options options;
  std::string json;
  std::vector<std::string> groups{"bulk", "small", "rate", "sizes"}, without;
  CLI::App app{"The pool beside its rivals"};
  app.add_option("--json", json, "Write the figures to this file, not to standard output");
  app.add_option("--mooncake-python", options.mooncake_python, "Python that has the wheel mooncake-transfer-engine-non-cuda")
      ->envname("MOONCAKE_PYTHON")
      ->check(CLI::ExistingFile);
  app.add_option("--nixl-python", options.nixl_python, "Python that has the wheel nixl_cu13")
      ->envname("NIXL_PYTHON")
      ->check(CLI::ExistingFile);
  app.add_option("--size-max", options.size_max, "Largest object, such as 1GiB or 4GiB")->transform(CLI::AsSizeValue(false));
  app.add_option("--rows", groups, "Groups of rows")->delimiter(',')->check(CLI::IsMember({"bulk", "small", "rate", "sizes"}));
  app.add_option("--without", without, "Contestants to leave out, such as nfs,mooncake")->delimiter(',');
  CLI11_PARSE(app, argc, argv);

  options.is_isolated = is_isolated;
  field all;
  for (const contestant &each : contestants)
    if (std::find(without.begin(), without.end(), each.id) == without.end()) all.add(each.id, each.label, each.make, options);
    else all.forgo(each.id, each.label);
  report out{"pool", "loopback"};
  std::set<std::string> const wanted(groups.begin(), groups.end());
  if (wanted.count("bulk") != 0) bulk_rows(out, all);
  if (wanted.count("small") != 0) small_rows(out, all);
  if (wanted.count("rate") != 0) rate_rows(out, all);
  if (wanted.count("sizes") != 0) size_rows(out, all, options.size_max);
  for (const auto &[id, reason] : all.absent())
    if (std::find(without.begin(), without.end(), id) == without.end()) out.add({reason, 0, "figures", "", {}, {}});
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::in_isolation([=](bool is_isolated) {
    return bench::guarded("bench_pool", [=] { return bench::run(argc, argv, is_isolated); });
  });
}
