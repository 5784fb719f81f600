// bench/o2g/engine: the stream sets of an o2g engine, epoll against io_uring: two processes over
// the loopback, both on the set being measured. Rounds of the two alternate, and medians are
// reported.
//
// bench_o2g_engine [--only TEXT] [--set epoll|io_uring] [--json FILE]
//
// --only: only rows with TEXT in their names. --set: only one set, e.g. for strace -c.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/report.hpp"
#include "seams/clock/clock.hpp"
#include "seams/stream/stream_set.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr int round_count = 5;
constexpr double patience_s = 20;
constexpr size_t small_size = 8, flow_count = 16, flow_size = 64;

// The traffic of a measurement: an echo of `size` bytes by 8, after `size` in one direction; or a
// flow of small messages.
struct shape {
  std::string name;
  size_t size = small_size;  // bytes of a message
  size_t idle_count = 0;     // idle connections
  size_t message_count = 1'000;
  bool flows = false, sleeps = false;
};

using factory = result<std::unique_ptr<seams::stream_set>> (*)(const seams::stream_set_options &);

struct side final : seams::stream_handler {
  explicit side(factory make) : set{make({}).value()} {
    set->attach(*this);
  }

  uint64_t on_accepted(seams::stream_id id) override {
    streams.push_back(id);
    return streams.size() - 1;
  }
  void on_connected(uint64_t) override {
    connected_count++;
  }
  std::span<std::byte> receive_target(uint64_t) override {
    if (place.empty() || filled == place.size())
      return {};
    return std::span{place}.subspan(filled);
  }
  void on_placed(uint64_t word, size_t size) override {
    came(word, size);
  }
  size_t on_received(uint64_t word, std::span<const std::byte> bytes) override {
    came(word, bytes.size());
    return bytes.size();
  }
  void on_writable(uint64_t) override {}
  void on_closed(uint64_t, status) override {
    is_over = true;
  }

  void came(uint64_t word, size_t size) {
    received += size;
    filled += size;
    while (expected != 0 && filled >= expected) {
      filled -= expected;
      if (is_echo)
        say(word, small_size);
    }
  }

  // All of the data, unless the peer ends.
  void say(uint64_t word, size_t size) {
    if (out.size() < size)
      out.resize(size);
    for (size_t sent = 0; sent < size && !is_over;) {
      iovec const part{out.data() + sent, size - sent};
      auto taken = set->send(streams[word], {&part, 1});
      if (!taken.ok())
        return;
      sent += taken.value();
      if (sent < size && is_top)
        set->progress();
    }
  }
  void turn(bool may_sleep) {
    if (set->progress() == 0 && may_sleep)
      (void)set->wait(seams::monotonic_clock().now_ns() + 100'000'000);
  }

  std::unique_ptr<seams::stream_set> set;
  std::vector<seams::stream_id> streams{};
  std::vector<std::byte> place{}, out{};
  size_t filled = 0, expected = 0, connected_count = 0;
  uint64_t received = 0;
  bool is_echo = false, is_over = false, is_top = true;
};

seams::socket_address loopback(uint16_t at) {
  seams::socket_address address{.family = seams::socket_address::family_kind::ipv4, .port = at};
  address.bytes = {127, 0, 0, 1};
  return address;
}

// The child: accepts connections and answers each message, or keeps 16 connections full of small
// ones, until its parent ends.
[[noreturn]] void serve(factory make, const shape &what, int tell) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  side mine{make};
  mine.expected = what.flows ? 0 : what.size;
  mine.is_echo = !what.flows;
  mine.is_top = false;
  if (what.size > small_size && !what.flows)
    mine.place.resize(what.size);
  auto const at = mine.set->listen(loopback(0));
  uint16_t const number = result<seams::socket_address>{at}.value().port;
  if (write(tell, &number, sizeof number) != sizeof number)
    _exit(1);
  std::vector<std::byte> const bytes(flow_size);
  iovec const part{const_cast<std::byte *>(bytes.data()), bytes.size()};
  for (bool has_room = false; !mine.is_over;) {
    mine.turn(what.sleeps && !has_room);
    has_room = false;
    if (!what.flows || mine.streams.size() < flow_count)
      continue;
    for (auto const id : mine.streams) {
      auto sent = mine.set->send(id, {&part, 1});
      has_room = has_room || (sent.ok() && sent.value() == flow_size);
    }
  }
  _exit(0);
}

// Seconds for a message.
double measure(factory make, const shape &what) {
  int tell[2];
  if (pipe(tell) != 0)
    throw std::runtime_error("no pipe");
  pid_t const child = fork();
  if (child == 0)
    serve(make, what, tell[1]);
  uint16_t number = 0;
  if (read(tell[0], &number, sizeof number) != sizeof number)
    throw std::runtime_error("the other side did not start");
  side mine{make};
  size_t const count = what.flows ? flow_count : what.idle_count + 1;
  double const limit_s = now_s() + patience_s;
  auto const check_time = [&] {
    if (now_s() > limit_s || mine.is_over)
      throw std::runtime_error(what.name + ": no end");
  };
  while (mine.connected_count < count) {
    if (mine.streams.size() < count && mine.streams.size() < mine.connected_count + 100)
      mine.streams.push_back(mine.set->connect(loopback(number), {}, mine.streams.size()).value());
    mine.turn(false);
    check_time();
  }
  size_t done = 0;
  double begin_s = 0;
  if (what.flows) {
    while (mine.received < flow_size * what.message_count / 4) {
      mine.turn(what.sleeps);
      check_time();
    }
    begin_s = now_s();
    uint64_t const before = mine.received;
    while (mine.received - before < flow_size * what.message_count) {
      mine.turn(what.sleeps);
      check_time();
    }
    done = size_t((mine.received - before) / flow_size);
  } else {
    size_t const warm_count = what.message_count / 4;
    for (size_t i = 0; i < warm_count + what.message_count; i++) {
      if (i == warm_count)
        begin_s = now_s();
      uint64_t const before = mine.received;
      mine.say(0, what.size);
      while (mine.received < before + small_size) {
        mine.turn(what.sleeps);
        check_time();
      }
    }
    done = what.message_count;
  }
  double const took_s = now_s() - begin_s;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(tell[0]);
  close(tell[1]);
  return took_s / double(done);
}

std::vector<shape> shapes() {
  return {
      {.name = "half round trip of 8 B", .sleeps = true},
      {.name = "half round trip of 8 B, 100 idle sockets", .idle_count = 100, .sleeps = true},
      {.name = "half round trip of 8 B, 1000 idle sockets", .idle_count = 1'000, .sleeps = true},
      {.name = "half round trip of 8 B, 4000 idle sockets", .idle_count = 4'000, .sleeps = true},
      {.name = "half round trip of 8 B, never sleeping"},
      {.name = "1 MiB messages", .size = 1 << 20, .message_count = 100, .sleeps = true},
      {.name = "4 MiB messages", .size = 4 << 20, .message_count = 30, .sleeps = true},
      {.name = "64 B messages of 16 peers",
       .size = flow_size,
       .message_count = 50'000,
       .flows = true,
       .sleeps = true}};
}

double figure_of(const shape &what, double seconds) {
  if (what.flows)
    return 1 / seconds / 1e6;
  return what.size > small_size ? double(what.size) / seconds / 1e9 : seconds / 2 * 1e6;
}

int run(int argc, char **argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::string only, set;
  read_options(argc, argv, "bench/o2g/engine.cc", [&](const std::string &word, const char *value) {
    if (value == nullptr || (word != "--only" && word != "--set"))
      return false;
    (word == "--only" ? only : set) = value;
    return true;
  });
  report out{"o2g_engine", "no GPU"};
  for (shape const &what : shapes()) {
    if (what.name.find(only) == std::string::npos)
      continue;
    std::vector<double> uring, epoll;
    for (int i = 0; i < round_count; i++) {
      if (set != "io_uring")
        epoll.push_back(figure_of(what, measure(seams::epoll_stream_set_create, what)));
      if (set != "epoll")
        uring.push_back(figure_of(what, measure(seams::uring_stream_set_create, what)));
    }
    bool const is_small = what.size == small_size;
    if (set == "epoll")
      uring = epoll;
    out.add({.what = (set == "epoll" ? "epoll: " : "io_uring: ") + what.name,
             .value = median(uring),
             .unit = is_small     ? "us"
                     : what.flows ? "M/s"
                                  : "GB/s",
             .rival = set.empty() ? "epoll" : "",
             .rival_value = set.empty() ? std::optional{median(epoll)} : std::nullopt,
             .bar = {},
             .direction = is_small ? better::lower : better::higher});
  }
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_o2g_engine", [=] { return bench::run(argc, argv); });
}
