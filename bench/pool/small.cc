// bench_pool_small: small objects on the daemon's node, through its rings, its UNIX socket and TCP,
// beside memcached: puts, first gets, requests after a pause, and what polling costs.
//
// usage: bench_pool_small [--rounds N] [--json FILE]
//
// A first get is one of a name that the connection has not read before. Repeated ones need no
// request (bench_pool). A pause lets both sides sleep, so that the next request wakes them.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include "contest.hpp"
#include "pool_daemon.hpp"

namespace {

using bench::now_s;
using strings = std::vector<std::string>;

constexpr unsigned name_count = 400;  // fewer than a client caches
constexpr double ring_bar_us = 2;
const char *const ring = "ring", *const socket_id = "socket", *const tcp = "tcp",
                  *const memcached_unix = "memcached_unix", *const memcached_tcp = "memcached_tcp";

struct contestant {
  const char *id, *label;
  bench::field::factory make;
};

constexpr contestant contestants[] = {
    {"ring", "the pool, ring", bench::pool_local_rival},
    {"socket", "the pool, UNIX socket", bench::pool_socket_rival},
    {"tcp", "the pool, TCP", bench::pool_tcp_rival},
    {"memcached_unix", "memcached, UNIX socket", bench::memcached_unix_rival},
    {"memcached_tcp", "memcached, TCP", bench::memcached_tcp_rival},
};

// The contestant that a path is compared with.
const char *rival_of(const std::string &id) {
  if (id == ring || id == socket_id)
    return memcached_unix;
  return id == tcp ? memcached_tcp : nullptr;
}

std::string size_name(uint64_t size) {
  if (size >= 1 << 20)
    return std::to_string(size >> 20) + " MiB";
  return size < 1024 ? std::to_string(size) + " B" : std::to_string(size >> 10) + " KiB";
}

std::string object_name(uint64_t size, unsigned index) {
  return "small" + std::to_string(size) + "_" + std::to_string(index);
}

// Seconds of the first get of each name by a new connection.
std::vector<double> first_gets(bench::client &store, uint64_t size) {
  std::vector<uint8_t> target(size);
  std::vector<double> seconds;
  // The first request of a connection maps memory.
  (void)store.get(object_name(size, name_count), target.data(), size, 1);
  for (unsigned i = 0; i < name_count; i++)
    seconds.push_back(store.get(object_name(size, i), target.data(), size, 1).front());
  return seconds;
}

void add_round(bench::timings &all, const std::vector<double> &seconds) {
  all.rounds.push_back(bench::median(seconds));
  all.calls.insert(all.calls.end(), seconds.begin(), seconds.end());
}

using outcomes = std::map<std::string, bench::outcome>;

outcomes measure(bench::field &all, uint64_t size, unsigned rounds) {
  outcomes results;
  std::vector<uint8_t> const source(size, 7);
  for (const contestant &entry : contestants)
    for (unsigned i = 0; all.has(entry.id) && i <= name_count; i++)
      (void)all.connection(entry.id).put(object_name(size, i), source.data(), size, 1);
  for (unsigned round = 0; round <= rounds; round++)
    for (const contestant &entry : contestants) {
      if (!all.has(entry.id))
        continue;
      auto const put = all.connection(entry.id).put("small", source.data(), size, name_count);
      auto const client = all.store(entry.id).connect();
      auto const get = first_gets(*client, size);
      if (round == 0)
        continue;
      add_round(results[entry.id].put, put);
      add_round(results[entry.id].get, get);
    }
  for (auto &[id, result] : results)
    for (bench::timings *const side : {&result.put, &result.get})
      std::sort(side->calls.begin(), side->calls.end());
  return results;
}

bench::row latency_row(const std::string &what, const bench::timings &times) {
  bench::row row;
  row.what = what;
  row.unit = "us";
  row.direction = bench::better::lower;
  row.value = times.median_s() * 1e6;
  return row;
}

void latency_rows(bench::report &out, bench::field &all, uint64_t size, unsigned rounds) {
  outcomes const results = measure(all, size, rounds);
  for (bool const is_put : {true, false})
    for (const auto &[id, result] : results) {
      std::string const what = size_name(size) + (is_put ? " put p50, " : " first get p50, ");
      const bench::timings &own = is_put ? result.put : result.get;
      bench::row row = latency_row(what + all.label(id), own);
      if (id == ring && size == 4096) {
        row.bar = ring_bar_us;
        out.add(row);
        row.bar.reset();
      }
      const char *const rival = rival_of(id);
      auto const other = results.find(rival == nullptr ? "" : rival);
      if (other != results.end()) {
        const bench::timings &theirs = is_put ? other->second.put : other->second.get;
        row.rival = all.label(rival);
        row.rival_value = theirs.median_s() * 1e6;
        row.ratio = bench::ratio_of_rounds(own, theirs);
        if (id != socket_id)
          row.bar = 1;
      }
      out.add(row);
      row = latency_row(
          size_name(size) + (is_put ? " put p99, " : " first get p99, ") + all.label(id), own);
      row.value = own.part_s(0.99) * 1e6;
      out.add(row);
    }
}

// Puts after pauses, in which the daemon and the processors sleep.
void pause_rows(bench::report &out, bench::field &all) {
  std::vector<uint8_t> const source(4096, 7);
  for (auto const pause : {std::chrono::milliseconds{1}, std::chrono::milliseconds{100}})
    for (const char *const id : {ring, socket_id, memcached_unix}) {
      if (!all.has(id))
        continue;
      bench::timings times;
      std::vector<double> seconds;
      for (int i = 0; i < (pause.count() == 1 ? 400 : 50); i++) {
        std::this_thread::sleep_for(pause);
        seconds.push_back(all.connection(id).put("small", source.data(), source.size(), 1).front());
      }
      add_round(times, seconds);
      out.add(latency_row("4 KiB put p50 after a pause of " + std::to_string(pause.count()) +
                              " ms, " + all.label(id),
                          times));
    }
}

// Nanoseconds that all threads of a process have computed.
uint64_t processor_time_ns(pid_t process) {
  uint64_t total = 0;
  std::string const folder = "/proc/" + std::to_string(process) + "/task";
  for (auto const &task : std::filesystem::directory_iterator{folder}) {
    std::ifstream file{task.path() / "schedstat"};
    uint64_t time_ns = 0;
    file >> time_ns;
    total += time_ns;
  }
  return total;
}

// The part of one processor that the daemon uses while `work` runs for `duration_s`.
template <class Work>
double busy_part(pid_t process, double duration_s, const Work &work) {
  uint64_t const before_ns = processor_time_ns(process);
  double const start_s = now_s();
  while (now_s() - start_s < duration_s)
    work();
  return double(processor_time_ns(process) - before_ns) / 1e9 / (now_s() - start_s);
}

void cost_rows(bench::report &out) {
  constexpr double duration_s = 2;
  bench::pool_daemon const daemon{256 << 20};
  auto const add = [&out](const std::string &what, double part) {
    out.add({what, part * 100, "% of a processor", "", {}, {}, bench::better::lower});
  };
  auto const nap = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  };
  bench::rival_options options;
  options.url = daemon.url("cost");
  std::vector<uint8_t> const source(4096, 7);
  for (auto const make : {bench::pool_local_rival, bench::pool_socket_rival}) {
    std::string const via = make == bench::pool_local_rival ? "rings" : "UNIX sockets";
    auto const store = make(options);
    std::vector<std::unique_ptr<bench::client>> clients;
    for (int i = 0; i < 50; i++)
      clients.push_back(store->connect());
    nap();
    add("the daemon, 50 idle clients, " + via, busy_part(daemon.process_id(), duration_s, nap));
    add("the daemon, 50 idle clients and one 4 KiB put a ms, " + via,
        busy_part(daemon.process_id(), duration_s, [&] {
          nap();
          (void)clients.front()->put("cost", source.data(), source.size(), 1);
        }));
  }
}

// The same puts and repeated gets of a pool in memory, and of one over a file in memory.
void file_rows(bench::report &out, unsigned rounds) {
  std::string const file = "/dev/shm/bench-pool-small-" + std::to_string(getpid());
  bench::pool_daemon const dram{512 << 20};
  bench::pool_daemon const over_file{512 << 20, {"--backing", "file:" + file}};
  bench::rival_options dram_options, file_options;
  dram_options.url = dram.url("file");
  file_options.url = over_file.url("file");
  bench::field all;
  all.add("dram", "dram", bench::pool_local_rival, dram_options);
  all.add("ring", "file, ring", bench::pool_file_rival, file_options);
  all.add("socket", "file, UNIX socket", bench::pool_file_socket_rival, file_options);
  for (uint64_t const size : {uint64_t{4096}, uint64_t{1} << 20, uint64_t{64} << 20}) {
    unsigned const count = size > 1 << 20 ? 2 : 100;
    auto const results = bench::contest(all, {"dram", "ring", "socket"}, {size, rounds, count});
    for (bool const is_put : {true, false})
      for (const auto &[id, result] : results) {
        const bench::timings &own = is_put ? result.put : result.get;
        bench::row row = latency_row(
            size_name(size) + (is_put ? " put p50, " : " get p50, ") + all.label(id), own);
        if (id != "dram" && results.contains("dram")) {
          const bench::timings &theirs = is_put ? results.at("dram").put : results.at("dram").get;
          row.rival = "dram";
          row.rival_value = theirs.median_s() * 1e6;
          row.ratio = bench::ratio_of_rounds(own, theirs);
        }
        out.add(row);
      }
  }
  std::filesystem::remove(file);
  std::filesystem::remove_all(file + ".journal");
}

int run(int argc, char **argv) {
  unsigned rounds = 9;
  bench::read_options(argc, argv, __FILE__, [&](const std::string &word, const char *value) {
    if (word != "--rounds")
      return false;
    rounds = unsigned(std::stoul(value));
    return true;
  });
  bench::report out{"pool_small", "loopback"};
  bench::rival_options options;
  options.size_max = 64 << 20;
  bench::field all;
  for (const contestant &entry : contestants)
    all.add(entry.id, entry.label, entry.make, options);
  for (uint64_t const size : {uint64_t{64}, uint64_t{4096}, uint64_t{16384}})
    latency_rows(out, all, size, rounds);
  pause_rows(out, all);
  cost_rows(out);
  file_rows(out, rounds);
  for (const auto &[id, reason] : all.absent())
    out.add({reason, 0, "figures", "", {}, {}});
  return out.finish(argc, argv);
}

}  // namespace

int main(int argc, char **argv) {
  return bench::guarded(argv[0], [&] { return run(argc, argv); });
}
