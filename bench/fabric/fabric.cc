// bench/fabric: what the fabric reaches between two processes of this machine, beside a plain socket and memcpy in the
// same run: 64 MiB and 4 KiB, written to and read from the other's memory.
//
//   bench_fabric [--json FILE]
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../common/report.hpp"
#include "port/fabric/libfabric_endpoint.hpp"
#include "tcp_rival.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr size_t large = 64u << 20, small = 4096;
constexpr int large_rounds = 9, small_rounds = 2'000;
constexpr uint64_t patience_ns = 60'000'000'000;

void check(status code, const char *what) {
  if (code != status::ok) throw std::runtime_error(std::string(what) + ": status " + std::to_string(int(code)));
}

struct card {
  port::fabric_address address;
  port::fabric_remote remote;
};

std::unique_ptr<port::fabric_endpoint> open(const std::string &provider) {
  port::libfabric_options options;
  options.provider = provider;
  if (provider != "shm") options.node = "127.0.0.1";
  auto opened = port::libfabric_endpoint_open(options);
  check(opened.error(), "open an endpoint");
  return std::move(opened).value();
}

// The process that owns the memory. `looks`: it looks all the time instead of sleeping until something comes.
[[noreturn]] void serve(const std::string &provider, bool looks, int tell, int parent) {
  auto endpoint = open(provider);
  std::vector<std::byte> memory(large, std::byte{1});
  auto region = endpoint->region_register({.addr = memory.data(), .size = large}, {true, true});
  check(region.error(), "register");
  card const own{endpoint->address(), region.value().remote};
  if (write(tell, &own, sizeof own) != ssize_t(sizeof own)) _exit(1);
  uint64_t const end_ns = port::deadline_after(port::monotonic_clock().now_ns(), 60'000'000'000);
  while (getppid() == parent && port::monotonic_clock().now_ns() < end_ns) {
    port::fabric_completion done[4];
    if (looks) {
      for (int i = 0; i < 10'000; i++) {
        if (endpoint->poll(done) == 0) sched_yield();
      }
    } else {
      (void)endpoint->wait(port::deadline_after(port::monotonic_clock().now_ns(), 20'000'000));
      (void)endpoint->poll(done);
    }
  }
  _exit(0);
}

class remote_memory {
 public:
  remote_memory(const std::string &provider, bool looks) : looks_{looks} {
    int tell[2];
    if (pipe(tell) != 0) throw std::runtime_error("no pipe");
    int const parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      try {
        serve(provider, looks, tell[1], parent);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "bench: %s\n", error.what());
        _exit(1);
      }
    }
    close(tell[1]);
    bool const well = read(tell[0], &card_, sizeof card_) == ssize_t(sizeof card_);
    close(tell[0]);
    if (!well) throw std::runtime_error("the other process does not serve");
    endpoint_ = open(provider);
    auto added = endpoint_->peer_add(card_.address.span());
    check(added.error(), "add the peer");
    peer_ = added.value();
  }
  ~remote_memory() {
    endpoint_.reset();
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  remote_memory(const remote_memory &) = delete;
  remote_memory &operator=(const remote_memory &) = delete;

  void move(port::fabric_op_kind kind, std::span<std::byte> bytes) {
    port::fabric_op op;
    op.kind = kind;
    op.peer = peer_;
    op.addr = bytes.data();
    op.size = bytes.size();
    op.remote = card_.remote;
    op.deadline_ns = port::deadline_after(port::monotonic_clock().now_ns(), patience_ns);
    check(endpoint_->post(op), "post");
    port::fabric_completion done[1];
    while (endpoint_->poll(done) == 0) {
      looks_ ? (void)sched_yield() : (void)endpoint_->wait(op.deadline_ns);
    }
    check(done[0].code, "transfer");
  }

 private:
  bool looks_;
  card card_{};
  pid_t process_ = -1;
  std::unique_ptr<port::fabric_endpoint> endpoint_;
  port::fabric_peer peer_ = port::no_fabric_peer;
};

// One way to move bytes to and from somewhere.
struct way {
  std::string name;
  std::function<void(std::span<std::byte>)> write, read;
  std::array<std::vector<double>, 4> seconds;  // large write, large read, small write, small read
};

way over_fabric(const std::string &provider, bool looks) {
  auto const memory = std::make_shared<remote_memory>(provider, looks);
  return {provider + (looks ? ", looking" : ""),
          [memory](std::span<std::byte> bytes) { memory->move(port::fabric_op_kind::write, bytes); },
          [memory](std::span<std::byte> bytes) { memory->move(port::fabric_op_kind::read, bytes); }, {}};
}

way over_socket() {
  auto const rival = std::make_shared<tcp_rival>(large);
  return {"plain TCP", [rival](std::span<std::byte> bytes) { rival->write(bytes); },
          [rival](std::span<std::byte> bytes) { rival->read(bytes); }, {}};
}

way over_memcpy() {
  auto const memory = std::make_shared<std::vector<std::byte>>(large, std::byte{1});
  return {"memcpy", [memory](std::span<std::byte> bytes) { std::memcpy(memory->data(), bytes.data(), bytes.size()); },
          [memory](std::span<std::byte> bytes) { std::memcpy(bytes.data(), memory->data(), bytes.size()); }, {}};
}

double seconds_of(const std::function<void(std::span<std::byte>)> &move, std::span<std::byte> bytes) {
  double const begin = now_s();
  move(bytes);
  return now_s() - begin;
}

// Ways one after the other in each round, so that what else the machine does meets all of them.
void measure(std::vector<way *> ways) {
  std::vector<std::byte> bytes(large, std::byte{2});
  std::span<std::byte> const all{bytes}, part = all.first(small);
  for (int round = 0; round <= large_rounds; round++) {
    for (auto *each : ways) {
      double const times[] = {seconds_of(each->write, all), seconds_of(each->read, all)};
      for (size_t i = 0; i < 2 && round > 0; i++) each->seconds[i].push_back(times[i]);
    }
  }
  for (auto *each : ways) {
    for (int round = 0; round < small_rounds; round++) {
      each->seconds[2].push_back(seconds_of(each->write, part));
      each->seconds[3].push_back(seconds_of(each->read, part));
    }
  }
}

void add_rows(report &out, const way &ours, const way &rival) {
  static constexpr const char *what[] = {"64 MiB write", "64 MiB read", "4 KiB write", "4 KiB read"};
  for (size_t i = 0; i < 4; i++) {
    bool const is_large = i < 2;
    auto const value = [&](const way &which) {
      double const median_s = median(which.seconds[i]);
      return is_large ? double(large) / median_s / 1e9 : median_s * 1e6;
    };
    out.add({.what = ours.name + ": " + what[i], .value = value(ours), .unit = is_large ? "GB/s" : "us", .rival = rival.name,
             .rival_value = value(rival), .bar = {}, .direction = is_large ? better::higher : better::lower});
  }
}

int run(int argc, char **argv) {
  report out{"fabric", "no GPU"};
  {
    auto ours = over_fabric("tcp;ofi_rxm", false), rival = over_socket();
    measure({&ours, &rival});
    add_rows(out, ours, rival);
  }
  {
    auto ours = over_fabric("shm", true), rival = over_memcpy();
    measure({&ours, &rival});
    add_rows(out, ours, rival);
  }
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_fabric", [=] { return bench::run(argc, argv); });
}
