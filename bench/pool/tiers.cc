// bench/pool/tiers.cc: a pool on flash with much more data than memory: reads of objects that are
// not in memory, and durable puts, beside reads and writes of a file on the same disk.
//
// usage: bench_pool_tiers [--folder DIR] [--memory-mib 64] [--data-mib 1024] [--json FILE]
//
// Each object is read once, in random order, so no read finds it in the pool's memory. Before each
// round the pages of all files leave the system's cache. The file is read by as many threads as the
// pool has clients, in pieces of the objects' size, at most 1 MiB. Rounds alternate.
#include <fcntl.h>
#include <tanada/pool.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../common/report.hpp"
#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace {

using bench::now_s;

constexpr uint64_t mib = uint64_t{1} << 20, piece_size_max = mib;
constexpr double start_limit_s = 120;
constexpr uint64_t sync_size = 64 * mib;  // as much shares a sync of the pool's log
constexpr int small_count_max = 20'000;

struct settings {
  std::string folder;
  uint64_t memory_mib = 64, data_mib = 1024;
};

void check(tnd_status code, const std::string &call) {
  if (code != TND_OK)
    throw std::runtime_error{call + ": " + tnd_status_text(code)};
}

// Drop the pages of all files below a folder from the system's cache.
void drop_pages(const std::string &folder) {
  for (auto const &entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (!entry.is_regular_file())
      continue;
    int const file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
      continue;
    (void)fdatasync(file);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

class flash_daemon {
 public:
  flash_daemon(const settings &given, std::string folder)
      : folder_{std::move(folder)}, port_{bench::free_port()} {
    std::filesystem::create_directories(folder_);
    process_ = std::make_unique<bench::server>(
        std::vector<std::string>{TND_BENCH_POOLD,
                                 "--size",
                                 std::to_string(given.memory_mib) + "MiB",
                                 "--port",
                                 std::to_string(port_),
                                 "--backing",
                                 "flash:" + folder_ + "/log",
                                 "--log-size",
                                 std::to_string(8 * given.data_mib) + "MiB"},
        folder_ + "/output");
    process_->wait_until([this] { return bench::socket_place{"", port_}.answers(); },
                         start_limit_s);
  }
  std::string url() const {
    return "pool://127.0.0.1:" + std::to_string(port_) + "/bench";
  }
  double resident_mib() const {
    std::ifstream status{"/proc/" + std::to_string(process_->process_id()) + "/status"};
    std::string word;
    while (status >> word && word != "VmHWM:") {}
    double size_kib = 0;
    status >> size_kib;
    return size_kib / 1024;
  }

 private:
  std::string const folder_;
  uint16_t const port_;
  std::unique_ptr<bench::server> process_;
};

using connection = std::unique_ptr<tnd_pool, void (*)(tnd_pool *)>;

connection connect_by_tcp(const std::string &url) {
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.shared_memory = 0;
  config.timeout_ns = 120'000'000'000;
  tnd_pool *opened = nullptr;
  check(tnd_pool_connect(url.c_str(), &config, &opened), "connect");
  return {opened, [](tnd_pool *pool) {
            tnd_pool_disconnect(pool);
          }};
}

// Objects of one size, and the clients that use them at the same time.
struct workload {
  uint64_t size;
  int count, thread_count;
  std::string text() const {
    return size >= mib ? std::to_string(size / mib) + " MiB" : std::to_string(size / 1024) + " KiB";
  }
};

std::string name_of(const workload &load, int i) {
  return std::to_string(load.size) + "/" + std::to_string(i);
}

// Calls `body` with each number below `count` once, in `thread_count` threads. Returns the seconds.
double time_all(const workload &load, const std::function<void(int thread, int i)> &body) {
  std::vector<int> order(size_t(load.count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::minstd_rand{7});
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  double const begin_s = now_s();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < load.thread_count; thread++) {
      threads.emplace_back([&, thread] {
        try {
          for (size_t k = next++; k < order.size() && !has_failed; k = next++)
            body(thread, order[k]);
        } catch (const std::exception &) {
          has_failed = true;
        }
      });
    }
  }
  if (has_failed)
    throw std::runtime_error{"a transfer of " + load.text() + " failed"};
  return now_s() - begin_s;
}

std::vector<connection> connect_all(const std::string &url, const workload &load) {
  std::vector<connection> all;
  for (int i = 0; i < load.thread_count; i++)
    all.push_back(connect_by_tcp(url));
  return all;
}

double put_rate(const std::string &url, const workload &load) {
  auto const clients = connect_all(url, load);
  std::vector<char> const bytes(load.size, 'x');
  double const seconds = time_all(load, [&](int thread, int i) {
    check(tnd_pool_put(clients[size_t(thread)].get(),
                       name_of(load, i).c_str(),
                       bytes.data(),
                       load.size,
                       TND_POOL_DURABLE,
                       nullptr),
          "put");
  });
  return double(load.size) * load.count / seconds;
}

double get_rate(const std::string &url, const workload &load) {
  auto const clients = connect_all(url, load);
  std::vector<std::vector<char>> targets(size_t(load.thread_count), std::vector<char>(load.size));
  double const seconds = time_all(load, [&](int thread, int i) {
    uint64_t size = 0;
    check(tnd_pool_get(clients[size_t(thread)].get(),
                       name_of(load, i).c_str(),
                       targets[size_t(thread)].data(),
                       load.size,
                       &size,
                       0),
          "get");
    if (size != load.size)
      throw std::runtime_error{"an object has another size"};
  });
  return double(load.size) * load.count / seconds;
}

// A file as large as all objects of a workload.
class plain_file {
 public:
  explicit plain_file(const std::string &path)
      : path_{path}, file_{open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)} {
    if (file_ < 0)
      throw std::runtime_error{path + " cannot be created"};
  }
  ~plain_file() {
    close(file_);
    unlink(path_.c_str());
  }
  double write_rate(uint64_t total) {
    std::vector<char> const bytes(4 * mib, 'x');
    double const begin_s = now_s();
    for (uint64_t offset = 0; offset < total; offset += bytes.size()) {
      if (pwrite(file_, bytes.data(), bytes.size(), off_t(offset)) != ssize_t(bytes.size()))
        throw std::runtime_error{path_ + " cannot be written"};
      bool const is_group = (offset + bytes.size()) % sync_size == 0;
      if (is_group && fdatasync(file_) != 0)
        throw std::runtime_error{path_ + " cannot be synced"};
    }
    (void)fdatasync(file_);
    return double(total) / (now_s() - begin_s);
  }
  double read_rate(const workload &load) {
    std::vector<std::vector<char>> targets(size_t(load.thread_count),
                                           std::vector<char>(piece_size_max));
    uint64_t const step = std::min(load.size, piece_size_max);
    double const seconds = time_all(load, [&](int thread, int i) {
      for (uint64_t done = 0; done < load.size; done += step) {
        off_t const offset = off_t(uint64_t(i) * load.size + done);
        if (pread(file_, targets[size_t(thread)].data(), step, offset) != ssize_t(step))
          throw std::runtime_error{path_ + " cannot be read"};
      }
    });
    return double(load.size) * load.count / seconds;
  }

 private:
  std::string const path_;
  int const file_;
};

void measure(bench::report &out,
             const settings &given,
             const std::string &folder,
             const workload &load) {
  flash_daemon const daemon{given, folder + "/pool"};
  plain_file file{folder + "/file"};
  uint64_t const total = load.size * uint64_t(load.count);
  bool const measures_puts = load.size == mib;
  double const file_write = file.write_rate((total + 4 * mib - 1) / (4 * mib) * (4 * mib));
  double const pool_write = put_rate(daemon.url(), load);
  std::string const of = std::to_string(load.count) + " objects of " + load.text() + ", " +
                         std::to_string(load.thread_count) + " clients";
  if (measures_puts)
    out.add({"durable puts of " + of,
             pool_write / 1e6,
             "MB/s",
             "write and fdatasync of a file",
             file_write / 1e6,
             0.8});
  drop_pages(folder);
  double const file_read = file.read_rate(load);
  drop_pages(folder);
  double const pool_read = get_rate(daemon.url(), load);
  out.add({"gets of " + of, pool_read / 1e6, "MB/s", "pread of a file", file_read / 1e6, 0.8});
  out.add({"peak memory of the daemon, " + of,
           daemon.resident_mib(),
           "MiB",
           "",
           {},
           {},
           bench::better::lower});
}

int run(int argc, char **argv) {
  settings given;
  bench::read_options(
      argc, argv, "bench/pool/tiers.cc", [&](const std::string &word, const char *value) {
        if (value == nullptr)
          return false;
        if (word == "--folder")
          given.folder = value;
        else if (word == "--memory-mib")
          given.memory_mib = std::stoull(value);
        else if (word == "--data-mib")
          given.data_mib = std::stoull(value);
        else
          return false;
        return true;
      });
  bench::scratch_folder const scratch;
  std::string const parent = given.folder.empty() ? scratch.path() : given.folder;
  uint64_t const total = given.data_mib * mib;
  bench::report out{"pool_tiers", "host"};
  workload const loads[] = {{4096, std::min(small_count_max, int(total / 4096)), 16},
                            {mib, int(total / mib), 4},
                            {64 * mib, int(total / (64 * mib)), 1}};
  for (const workload &load : loads) {
    std::string const folder =
        parent + "/bench_pool_tiers_" + std::to_string(getpid()) + "_" + std::to_string(load.size);
    std::filesystem::create_directories(folder);
    measure(out, given, folder, load);
    std::filesystem::remove_all(folder);
  }
  return out.finish(argc, argv);
}

}  // namespace

int main(int argc, char **argv) {
  return bench::guarded("bench_pool_tiers", [&] { return run(argc, argv); });
}
