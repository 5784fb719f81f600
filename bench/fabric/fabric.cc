// bench/fabric: the fabric between two processes of this machine, compared with a plain socket and
// memcpy in the same run: 64 MiB, 1 MiB and 4 KiB written to and read from the other's memory, and
// the latency of 8 bytes.
//
// bench_fabric [latency|looking] [--json FILE]
//       latency: only the latency rows; looking: only the rows in which both sides poll all the
//       time
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "../common/report.hpp"
#include "backends/libfabric/libfabric_setup.hpp"
#include "latency.hpp"
#include "remote_memory.hpp"
#include "tcp_rival.hpp"

namespace bench {
namespace {

constexpr size_t large = 64u << 20, medium = 1u << 20, small = 4096;
constexpr int large_rounds = 9, medium_rounds = 100, small_rounds = 2'000;

// A method of moving bytes to and from another process.
struct way {
  std::string name;
  std::function<void(std::span<std::byte>)> write, read;
  std::array<std::vector<double>, 6> seconds;  // write and read: large, small, medium
};

way over_fabric(const std::string &provider, bool looks) {
  auto const memory =
      std::make_shared<remote_memory>(provider, looks ? owner_does::look : owner_does::wait, large);
  return {provider + (looks ? ", looking" : ""),
          [memory](std::span<std::byte> bytes) {
            memory->move(tanada::seams::fabric_op_kind::write, bytes);
          },
          [memory](std::span<std::byte> bytes) {
            memory->move(tanada::seams::fabric_op_kind::read, bytes);
          },
          {}};
}

way over_socket() {
  auto const rival = std::make_shared<tcp_rival>(large);
  return {"plain TCP",
          [rival](std::span<std::byte> bytes) { rival->write(bytes); },
          [rival](std::span<std::byte> bytes) { rival->read(bytes); },
          {}};
}

way over_memcpy() {
  auto const memory = std::make_shared<std::vector<std::byte>>(large, std::byte{1});
  return {"memcpy",
          [memory](std::span<std::byte> bytes) {
            std::memcpy(memory->data(), bytes.data(), bytes.size());
          },
          [memory](std::span<std::byte> bytes) {
            std::memcpy(bytes.data(), memory->data(), bytes.size());
          },
          {}};
}

double seconds_of(const std::function<void(std::span<std::byte>)> &move,
                  std::span<std::byte> bytes) {
  double const begin = now_s();
  move(bytes);
  return now_s() - begin;
}

// Measures the methods one after the other in each round, so that other load on the machine affects
// all of them.
void measure(std::vector<way *> ways) {
  std::vector<std::byte> bytes(large, std::byte{2});
  std::span<std::byte> const all{bytes}, part = all.first(small);
  for (int round = 0; round <= large_rounds; round++) {
    for (auto *each : ways) {
      double const times[] = {seconds_of(each->write, all), seconds_of(each->read, all)};
      for (size_t i = 0; i < 2 && round > 0; i++)
        each->seconds[i].push_back(times[i]);
    }
  }
  for (auto *each : ways) {
    for (int round = 0; round < small_rounds; round++) {
      each->seconds[2].push_back(seconds_of(each->write, part));
      each->seconds[3].push_back(seconds_of(each->read, part));
    }
    for (int round = 0; round < medium_rounds; round++) {
      each->seconds[4].push_back(seconds_of(each->write, all.first(medium)));
      each->seconds[5].push_back(seconds_of(each->read, all.first(medium)));
    }
  }
}

void add_rows(report &out, const way &ours, const way &rival) {
  static constexpr const char *what[] = {
      "64 MiB write", "64 MiB read", "4 KiB write", "4 KiB read", "1 MiB write", "1 MiB read"};
  for (size_t i = 0; i < std::size(what); i++) {
    bool const is_large = i / 2 != 1;
    auto const value = [&](const way &which) {
      double const median_s = median(which.seconds[i]);
      return is_large ? double(i < 2 ? large : medium) / median_s / 1e9 : median_s * 1e6;
    };
    out.add({.what = ours.name + ": " + what[i],
             .value = value(ours),
             .unit = is_large ? "GB/s" : "us",
             .rival = rival.name,
             .rival_value = value(rival),
             .bar = {},
             .direction = is_large ? better::higher : better::lower});
  }
}

void measure_transfers(report &out) {
  {
    auto own = over_fabric("o2g", false), rxm = over_fabric("tcp;ofi_rxm", false),
         rival = over_socket();
    measure({&own, &rxm, &rival});
    add_rows(out, own, rival);
    add_rows(out, rxm, rival);
  }
  {
    auto ours = over_fabric("shm", true), rival = over_memcpy();
    measure({&ours, &rival});
    add_rows(out, ours, rival);
  }
}

int run(int argc, char **argv) {
  bool wants_transfers = true, wants_waits = true;
  read_options(argc, argv, "fabric.cc", [&](const std::string &word, const char *) {
    wants_transfers = false;
    wants_waits = word != "looking";
    return word == "latency" || word == "looking";
  });
  tanada::backends::libfabric_prepare({.provider = "o2g"});
  report out{"fabric", "no GPU"};
  if (wants_transfers)
    measure_transfers(out);
  measure_latency(out, wants_waits);
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_fabric", [=] { return bench::run(argc, argv); });
}
