// bench/pool/durable.cc: a pool with many small durable objects: its restart, the memory and the
// space of the log that one takes, and how many a second become durable.
//
// usage: bench_pool_durable [--counts 1000,100000,1000000] [--media flash,file] [--folder DIR]
//   [--parts restart,space,commit] [--earlier PROGRAM] [--earlier-count-max 100000] [--json FILE]
//
// The objects have 64 bytes to 4 KiB, each octave with the same number. A restart follows SIGKILL,
// and ends when the daemon accepts connections, so it includes the start of an empty pool. The
// folder's files are in the page cache. `--earlier` is another build of the daemon, with which this
// one is compared. Commits are measured in alternating rounds, because the rate of syncs of a
// virtual disk changes by the second.
#include <tanada/pool.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
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

constexpr uint64_t size_min = 64, size_max = 4096, commit_size = 1024;
constexpr int many_count = 100'000;  // from which on buffers of a restart do not count
constexpr int loader_count = 4, writer_count = 16, lone_count = 200, outstanding_max = 1024;
constexpr double restart_bar_s = 10, object_size_bar = 512, space_bar = 4, lone_bar = 1.1,
                 sync_bar = 1 / 1.5;
constexpr double start_limit_s = 900, round_s = 1;
constexpr int round_count = 7;

struct settings {
  std::string counts = "1000,100000,1000000", media = "flash,file", folder,
              parts = "restart,space,commit", program, earlier, earlier_count_max = "100000";
};

// A build of the daemon, and what its rows add to their names.
struct build {
  std::string program, suffix;
};

void check(tnd_status code, const std::string &call) {
  if (code != TND_OK)
    throw std::runtime_error{call + ": " + tnd_status_text(code)};
}

std::vector<std::string> words_of(const std::string &list) {
  std::vector<std::string> words;
  std::stringstream rest{list};
  for (std::string word; std::getline(rest, word, ',');)
    words.push_back(word);
  return words;
}

bool contains(const std::string &list, const std::string &word) {
  for (const std::string &listed : words_of(list))
    if (listed == word)
      return true;
  return false;
}

uint64_t size_of(int i) {
  std::minstd_rand random{unsigned(i) + 1};
  random.discard(3);
  double const octaves = std::log2(double(size_max) / size_min);
  return uint64_t(size_min * std::exp2(octaves * double(random() % 1000) / 1000));
}

std::string name_of(int i) {
  return "run/" + std::to_string(i % 1000) + "/step-" + std::to_string(i / 1000);
}

// A daemon with a durable backing in a folder of its own, which it may leave and enter again.
class durable_daemon {
 public:
  durable_daemon(const settings &given,
                 const std::string &program,
                 const std::string &medium,
                 uint64_t capacity)
      : program_{program}, parent_{given.folder.empty() ? scratch_.path() : given.folder} {
    static int number = 0;
    folder_ = parent_ + "/bench_pool_durable_" + std::to_string(getpid()) + "_" +
              std::to_string(++number);
    std::filesystem::create_directories(folder_);
    backing_ = medium + ":" + folder_ + "/pool";
    capacity_ = capacity;
    start();
  }
  ~durable_daemon() {
    process_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Seconds until it accepts connections.
  double start() {
    port_ = bench::free_port();
    std::string const size = std::to_string(capacity_ >> 20) + "MiB";
    double const begin_s = now_s();
    process_ = std::make_unique<bench::server>(std::vector<std::string>{program_,
                                                                        "--size",
                                                                        size,
                                                                        "--port",
                                                                        std::to_string(port_),
                                                                        "--backing",
                                                                        backing_,
                                                                        "--log-size",
                                                                        "32GiB"},
                                               scratch_.path() + "/log");
    process_->wait_until([this] { return bench::socket_place{"", port_}.answers(); },
                         start_limit_s);
    return now_s() - begin_s;
  }
  double restart() {
    process_->kill_now();
    return start();
  }
  std::string url() const {
    return "pool://127.0.0.1:" + std::to_string(port_) + "/bench";
  }
  // Bytes of memory that are neither the pool's nor a file's.
  double heap_size() const {
    std::ifstream status{"/proc/" + std::to_string(process_->process_id()) + "/status"};
    std::string word;
    while (status >> word && word != "RssAnon:") {}
    double size_kib = 0;
    status >> size_kib;
    return size_kib * 1024;
  }
  // Seconds of processor time since its start, which other programs of a busy machine do not change
  // much.
  double processor_s() const {
    std::ifstream stat{"/proc/" + std::to_string(process_->process_id()) + "/stat"};
    std::string word;
    double ticks = 0;
    for (int field = 1; stat >> word && field <= 15; field++) {
      if (field >= 14)
        ticks += std::stod(word);
    }
    return ticks / double(sysconf(_SC_CLK_TCK));
  }
  double log_size() const {
    double size = 0;
    for (auto const &file : std::filesystem::recursive_directory_iterator{folder_}) {
      if (file.path().filename().string().starts_with("log-"))
        size += double(file.file_size());
    }
    return size;
  }

 private:
  bench::scratch_folder scratch_;
  std::string program_, parent_, folder_, backing_;
  uint64_t capacity_ = 0;
  uint16_t port_ = 0;
  std::unique_ptr<bench::server> process_;
};

// Reap completions of posted puts. Returns their number.
uint32_t reap(tnd_pool *pool) {
  tnd_pool_completion completions[64];
  uint32_t count = 0;
  check(tnd_pool_poll(pool, completions, 64, 1'000'000'000, &count), "poll");
  for (uint32_t i = 0; i < count; i++)
    check(completions[i].status, "a posted put");
  return count;
}

// Put objects first, first + step, ... below `count` with many requests outstanding.
void post_puts(const std::string &url, int first, int step, int count, uint64_t fixed_size) {
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(url.c_str(), nullptr, &pool), "connect");
  std::vector<char> bytes(size_max, 'x');
  uint32_t outstanding = 0;
  for (int i = first; i < count; i += step) {
    std::string const name = name_of(i);
    tnd_pool_request put{};
    put.struct_size = sizeof put;
    put.kind = TND_POOL_REQUEST_PUT;
    put.flags = TND_POOL_DURABLE;
    put.checksum_kind = TND_POOL_CHECKSUM_XXH3;
    put.name = name.c_str();
    put.memory = bytes.data();
    put.size = fixed_size != 0 ? fixed_size : size_of(i);
    while (outstanding == outstanding_max)
      outstanding -= reap(pool);
    check(tnd_pool_post(pool, &put), "post");
    outstanding++;
  }
  while (outstanding != 0)
    outstanding -= reap(pool);
  tnd_pool_disconnect(pool);
}

void put_all(const std::string &url, int count, uint64_t fixed_size = 0) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < loader_count; i++)
    threads.emplace_back([&, i] { post_puts(url, i, loader_count, count, fixed_size); });
}

void expect_all(const std::string &url, int count) {
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(url.c_str(), nullptr, &pool), "connect");
  std::vector<char> bytes(size_max);
  for (int i = 0; i < count; i += std::max(1, count / 100)) {
    tnd_pool_info info{};
    check(tnd_pool_stat(pool, name_of(i).c_str(), 0, &info), "stat");
    if (info.size != size_of(i))
      throw std::runtime_error{"an object came back with another size"};
  }
  tnd_pool_disconnect(pool);
}

void measure_restart(bench::report &out,
                     const settings &given,
                     const build &measured,
                     const std::string &medium,
                     int count) {
  std::string const of = ", " + medium + ", " + std::to_string(count) + " objects";
  durable_daemon daemon{given, measured.program, medium, uint64_t{2} << 30};
  double const empty_restart_s = daemon.restart(), empty_size = daemon.heap_size();
  double const begin_s = now_s();
  put_all(daemon.url(), count);
  out.add({"durable puts, 4 connections with 1024 outstanding" + of + measured.suffix,
           count / (now_s() - begin_s),
           "1/s",
           "",
           {},
           {}});
  bool const has_bar = measured.suffix.empty();
  out.add({"restart, " + medium + ", no objects" + measured.suffix,
           empty_restart_s,
           "s",
           "",
           {},
           {},
           bench::better::lower});
  double const restart_s = daemon.restart(), processor_s = daemon.processor_s();
  expect_all(daemon.url(), count);
  out.add({"restart" + of + measured.suffix,
           restart_s,
           "s",
           "",
           {},
           has_bar ? std::optional{restart_bar_s} : std::nullopt,
           bench::better::lower});
  out.add({"processor time of the restart" + of + measured.suffix,
           processor_s,
           "s",
           "",
           {},
           {},
           bench::better::lower});
  out.add({"memory an object after the restart" + of + measured.suffix,
           (daemon.heap_size() - empty_size) / count,
           "B",
           "",
           {},
           has_bar && count >= many_count ? std::optional{object_size_bar} : std::nullopt,
           bench::better::lower});
}

void measure_restarts(bench::report &out, const settings &given, const std::string &medium) {
  for (const std::string &word : words_of(given.counts)) {
    int const count = std::stoi(word);
    measure_restart(out, given, {given.program, ""}, medium, count);
    if (!given.earlier.empty() && count <= std::stoi(given.earlier_count_max))
      measure_restart(out, given, {given.earlier, ", earlier daemon"}, medium, count);
  }
}

double name_size_of(int count) {
  double size = 0;
  for (int i = 0; i < count; i++)
    size += double(name_of(i).size());
  return size;
}

void measure_space(bench::report &out, const settings &given, const build &measured, int count) {
  std::string const of = ", flash, " + std::to_string(count) + " objects of 64 B" + measured.suffix;
  bool const has_bar = measured.suffix.empty();
  durable_daemon daemon{given, measured.program, "flash", uint64_t{1} << 30};
  put_all(daemon.url(), count, size_min);
  out.add({"log, in bytes of objects and names" + of,
           daemon.log_size() / (double(count) * size_min + name_size_of(count)),
           "x",
           "",
           {},
           has_bar ? std::optional{space_bar} : std::nullopt,
           bench::better::lower});
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(daemon.url().c_str(), nullptr, &pool), "connect");
  std::vector<char> bytes(size_min, 'x');
  double const before = daemon.log_size();
  for (int i = 0; i < lone_count; i++) {
    std::string const name = "lone" + std::to_string(i);
    check(tnd_pool_put(pool, name.c_str(), bytes.data(), size_min, TND_POOL_DURABLE, nullptr),
          "put");
  }
  out.add({"log of a lone durable put of 64 B, flash" + measured.suffix,
           (daemon.log_size() - before) / lone_count / 4096,
           "blocks",
           "",
           {},
           has_bar ? std::optional{lone_bar} : std::nullopt,
           bench::better::lower});
  tnd_pool_disconnect(pool);
}

using writer_body = std::function<void(int)>;

// Calls a second of `bodies` in threads of their own, for a round.
double rate(const std::vector<writer_body> &bodies) {
  std::atomic<uint64_t> done = 0;
  double const begin_s = now_s();
  {
    std::vector<std::jthread> threads;
    for (auto const &body : bodies) {
      threads.emplace_back([&] {
        for (int i = 0; now_s() - begin_s < round_s; i++) {
          body(i);
          done++;
        }
      });
    }
  }
  return double(done) / (now_s() - begin_s);
}

std::string key_of(int writer, int i) {
  return "writer" + std::to_string(writer) + "/" + std::to_string(i % 1000);
}

writer_body pool_writer(const std::string &url, int writer) {
  tnd_pool *opened = nullptr;
  check(tnd_pool_connect(url.c_str(), nullptr, &opened), "connect");
  std::shared_ptr<tnd_pool> const pool{opened, tnd_pool_disconnect};
  return [pool, writer, bytes = std::string(commit_size, 'x')](int i) {
    check(tnd_pool_put(pool.get(),
                       key_of(writer, i).c_str(),
                       bytes.data(),
                       bytes.size(),
                       TND_POOL_DURABLE,
                       nullptr),
          "put");
  };
}

writer_body redis_writer(const bench::socket_place &place, int writer) {
  auto const lines = std::make_shared<bench::line_socket>(place.open());
  return [lines, writer, bytes = std::string(commit_size, 'x')](int i) {
    std::string const key = key_of(writer, i);
    std::string const request = "*3\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n" + key +
                                "\r\n$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
    lines->socket().send({{request.data(), request.size()}});
    if (lines->line() != "+OK")
      throw std::runtime_error{"Redis does not store"};
  };
}

std::vector<writer_body> make_writers(const std::function<writer_body(int)> &make) {
  std::vector<writer_body> writers;
  for (int i = 0; i < writer_count; i++)
    writers.push_back(make(i));
  return writers;
}

// Objects a second if each group of writer_count is appended to one file, with one fdatasync.
double sync_rate(const std::string &folder) {
  std::string const path = folder + "/bench_pool_durable_file";
  int const file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    throw std::runtime_error{path + " cannot be created"};
  std::string const group(writer_count * commit_size, 'x');
  uint64_t done = 0;
  double const begin_s = now_s();
  while (now_s() - begin_s < round_s) {
    bool const is_written = write(file, group.data(), group.size()) == ssize_t(group.size());
    if (!is_written || fdatasync(file) != 0)
      throw std::runtime_error{path + " cannot be written"};
    done += writer_count;
  }
  double const reached = double(done) / (now_s() - begin_s);
  close(file);
  unlink(path.c_str());
  return reached;
}

// Redis that syncs its file before each reply.
class redis {
 public:
  explicit redis(const std::string &folder) : data_{folder + "/bench_pool_durable_redis"} {
    std::string const program = bench::find_program("redis-server");
    std::filesystem::create_directories(data_);
    process_ = std::make_unique<bench::server>(std::vector<std::string>{program,
                                                                        "--save",
                                                                        "",
                                                                        "--appendonly",
                                                                        "yes",
                                                                        "--appendfsync",
                                                                        "always",
                                                                        "--dir",
                                                                        data_,
                                                                        "--bind",
                                                                        "127.0.0.1",
                                                                        "--port",
                                                                        std::to_string(port_)},
                                               scratch_.path() + "/log");
    process_->wait_until([this] { return place().answers(); }, 10);
  }
  ~redis() {
    process_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(data_, ignored);
  }
  bench::socket_place place() const {
    return {"", port_};
  }

 private:
  bench::scratch_folder scratch_;
  std::string data_;
  uint16_t port_ = bench::free_port();
  std::unique_ptr<bench::server> process_;
};

// Something that makes objects durable, with its rates of all rounds.
struct contender {
  std::string name;
  std::function<double()> run;
  std::vector<double> rates = {};
};

void measure_commits(bench::report &out, const settings &given, const std::string &medium) {
  bench::scratch_folder const scratch;
  std::string const folder = given.folder.empty() ? scratch.path() : given.folder;
  std::vector<contender> contenders;
  auto const add_daemon = [&](const std::string &name, const std::string &program) {
    auto const daemon = std::make_shared<durable_daemon>(given, program, medium, uint64_t{1} << 30);
    auto const writers = make_writers([&](int i) { return pool_writer(daemon->url(), i); });
    contenders.push_back({name, [daemon, writers] {
                            return rate(writers);
                          }});
  };
  add_daemon("", given.program);
  contenders.push_back({"a fdatasync for 16", [&] {
                          return sync_rate(folder);
                        }});
  std::string absent;
  try {
    auto const server = std::make_shared<redis>(folder);
    auto const writers = make_writers([&](int i) { return redis_writer(server->place(), i); });
    contenders.push_back({"Redis, appendfsync always", [server, writers] {
                            return rate(writers);
                          }});
  } catch (const bench::not_here &reason) {
    absent = reason.what();
  }
  if (!given.earlier.empty())
    add_daemon("the earlier daemon", given.earlier);
  for (int round = 0; round < round_count; round++) {
    for (contender &each : contenders)
      each.rates.push_back(each.run());
  }
  std::string const what = "durable puts of 1 KiB, 16 writers, " + medium;
  double const reached = bench::median(contenders[0].rates);
  for (size_t i = 1; i < contenders.size(); i++) {
    std::vector<double> ratios;
    for (int round = 0; round < round_count; round++)
      ratios.push_back(contenders[0].rates[size_t(round)] / contenders[i].rates[size_t(round)]);
    bench::row against{
        what, reached, "1/s", contenders[i].name, bench::median(contenders[i].rates), {}};
    against.ratio = bench::median(ratios);
    if (i == 1)
      against.bar = sync_bar;
    out.add(against);
  }
  if (!absent.empty())
    out.add({what, reached, "1/s", absent, {}, {}});
}

void measure_spaces(bench::report &out, const settings &given) {
  int const count = std::stoi(words_of(given.counts).back());
  measure_space(out, given, {given.program, ""}, count);
  if (!given.earlier.empty()) {
    int const earlier_count = std::min(count, std::stoi(given.earlier_count_max));
    measure_space(out, given, {given.earlier, ", earlier daemon"}, earlier_count);
  }
}

int run(int argc, char **argv) {
  settings given;
  given.program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tanada-poold").string();
  bench::read_options(argc, argv, __FILE__, [&](const std::string &word, const char *value) {
    for (auto const &[name, target] :
         {std::pair{"--counts", &given.counts},
          std::pair{"--media", &given.media},
          std::pair{"--folder", &given.folder},
          std::pair{"--parts", &given.parts},
          std::pair{"--earlier", &given.earlier},
          std::pair{"--earlier-count-max", &given.earlier_count_max}}) {
      if (word == name) {
        *target = value;
        return true;
      }
    }
    return false;
  });
  bench::report out{"pool_durable", "loopback"};
  for (const std::string &medium : words_of(given.media)) {
    if (contains(given.parts, "commit"))
      measure_commits(out, given, medium);
    if (contains(given.parts, "restart"))
      measure_restarts(out, given, medium);
    if (contains(given.parts, "space") && medium == "flash")
      measure_spaces(out, given);
  }
  return out.finish(argc, argv);
}

}  // namespace

int main(int argc, char **argv) {
  return bench::guarded(argv[0], [&] { return run(argc, argv); });
}
