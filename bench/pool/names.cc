// bench/pool/names.cc: a pool with many objects: what one costs, and how look-ups and lists grow.
//
// usage: bench_pool_names [--counts 1000,100000,1000000] [--json FILE]
//
// The objects are empty, in folders of the same number of objects, so that the rows are of names
// only. Several connections look names up at the same time, which keeps the daemon busy: with one,
// most of a look-up is the time in which a processor wakes up, 10 to 120 us in a virtual machine.
#include <tanada/pool.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../common/report.hpp"
#include "pool_daemon.hpp"

namespace {

using bench::now_s;

constexpr int folder_count_max = 1000, look_up_count = 5'000, connection_count = 8, round_count = 5;
constexpr double object_size_bar = 512, look_up_bar = 1.2;

void check(tnd_status code, const char *call) {
  if (code != TND_OK)
    throw std::runtime_error{std::string{call} + ": " + tnd_status_text(code)};
}

// Memory in bytes of the process that this one has started.
double child_memory() {
  std::ifstream children{"/proc/self/task/" + std::to_string(getpid()) + "/children"};
  std::string child, word;
  children >> child;
  std::ifstream memory{"/proc/" + child + "/status"};
  while (memory >> word)
    if (word == "VmRSS:")
      break;
  double size_kib = 0;
  memory >> size_kib;
  return size_kib * 1024;
}

struct names {
  int count, folder_count;

  std::string name(int i) const {
    return "run/" + std::to_string(i % folder_count) + "/step-" + std::to_string(i / folder_count);
  }
};

void put_all(tnd_pool *pool, const names &objects) {
  for (int i = 0; i < objects.count; i++)
    check(tnd_pool_put(pool, objects.name(i).c_str(), nullptr, 0, 0, nullptr), "put");
}

void look_up_some(const std::string &url, const names &objects, unsigned seed) {
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(url.c_str(), nullptr, &pool), "connect");
  std::minstd_rand random{seed};
  tnd_pool_info info{};
  for (int i = 0; i < look_up_count; i++) {
    std::string const name = objects.name(int(random() % unsigned(objects.count)));
    check(tnd_pool_stat(pool, name.c_str(), 0, &info), "stat");
  }
  tnd_pool_disconnect(pool);
}

// Microseconds of the daemon's time for one look-up.
double look_up_us(const std::string &url, const names &objects) {
  std::vector<double> rounds;
  for (int round = 0; round < round_count; round++) {
    double const start_s = now_s();
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < connection_count; i++)
        threads.emplace_back([&, i] { look_up_some(url, objects, unsigned(i) + 1); });
    }
    rounds.push_back((now_s() - start_s) * 1e6 / (look_up_count * connection_count));
  }
  return bench::median(rounds);
}

double list_ms(tnd_pool *pool, const char *delimiter, int expected) {
  std::vector<double> rounds;
  for (int round = 0; round < round_count; round++) {
    int found = 0;
    auto const count_entry = [](void *count, const char *, const tnd_pool_info *) {
      ++*static_cast<int *>(count);
      return 0;
    };
    double const start_s = now_s();
    check(tnd_pool_list_delimited(pool, "run/", delimiter, count_entry, &found), "list");
    rounds.push_back((now_s() - start_s) * 1e3);
    if (found != expected)
      throw std::runtime_error{"the list has " + std::to_string(found) + " entries"};
  }
  return bench::median(rounds);
}

void measure(bench::report &out, int count, double &first_look_up_us) {
  names const objects{count, std::min(count, folder_count_max)};
  std::string const of = ", " + std::to_string(count) + " objects";
  bench::pool_daemon const daemon{64 << 20};
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(daemon.url("names").c_str(), nullptr, &pool), "connect");
  double const before = child_memory();
  put_all(pool, objects);
  out.add({"memory an object" + of,
           (child_memory() - before) / count,
           "B",
           "",
           {},
           object_size_bar,
           bench::better::lower});
  double const stat_us = look_up_us(daemon.url("names"), objects);
  bool const is_first = first_look_up_us == 0;
  if (is_first)
    first_look_up_us = stat_us;
  out.add({"look-up, 8 connections" + of,
           stat_us,
           "us",
           is_first ? "" : "the smallest pool",
           is_first ? std::nullopt : std::optional{first_look_up_us},
           is_first ? std::nullopt : std::optional{look_up_bar},
           bench::better::lower});
  double const all_ms = list_ms(pool, "", count);
  out.add({"list of all" + of, all_ms, "ms", "", {}, {}, bench::better::lower});
  out.add({"list of " + std::to_string(objects.folder_count) + " folders" + of,
           list_ms(pool, "/", objects.folder_count),
           "ms",
           "list of all",
           all_ms,
           {},
           bench::better::lower});
  tnd_pool_disconnect(pool);
}

int run(int argc, char **argv) {
  std::string counts = "1000,100000,1000000";
  bench::read_options(argc, argv, __FILE__, [&](const std::string &word, const char *value) {
    if (word != "--counts")
      return false;
    counts = value;
    return true;
  });
  bench::report out{"pool_names", "loopback"};
  double first_look_up_us = 0;
  std::stringstream rest{counts};
  for (std::string count; std::getline(rest, count, ',');)
    measure(out, std::stoi(count), first_look_up_us);
  return out.finish(argc, argv);
}

}  // namespace

int main(int argc, char **argv) {
  return bench::guarded(argv[0], [&] { return run(argc, argv); });
}
