#include "latency.hpp"

#include <functional>
#include <memory>

#include "remote_memory.hpp"
#include "tcp_rival.hpp"

namespace bench {
namespace {

using tanada::seams::fabric_op_kind;

constexpr int rounds = 20,
              turns = 300;  // alternating with the rival, so that other load affects both
constexpr size_t size = 4096, flood_count = 3'000;

struct operation {
  const char *name;
  std::function<void()> run;
};

// Median of the rounds, each the mean of its turns, in microseconds.
double turn_us(const std::function<void()> &run) {
  double const begin = now_s();
  for (int i = 0; i < turns; i++)
    run();
  return (now_s() - begin) / turns * 1e6;
}

void measure_with(report &out,
                  const std::string &provider,
                  owner_does what,
                  const std::string &name) {
  remote_memory memory{provider, what, size};
  tcp_rival rival{size, what != owner_does::wait};
  uint64_t word = 0;
  std::span<std::byte> const bytes{reinterpret_cast<std::byte *>(&word), sizeof word};
  operation const operations[] = {
      {"write of 8 B",
       [&] {
         memory.move(fabric_op_kind::write, bytes, true);
       }},
      {"read of 8 B",
       [&] {
         memory.move(fabric_op_kind::read, bytes);
       }},
      {"fetch-add",
       [&] {
         memory.fetch_add(1);
       }},
  };
  rival.pause();
  for (auto const &each : operations) {
    std::vector<double> ours, theirs, ratios;
    for (int round = 0; round < rounds; round++) {
      ours.push_back(turn_us(each.run));
      memory.pause();
      rival.resume();
      theirs.push_back(turn_us([&] { rival.read(bytes); }));
      rival.pause();
      memory.resume();
      ratios.push_back(ours.back() / theirs.back());
    }
    out.add({.what = provider + ", " + name + ": " + each.name,
             .value = median(ours),
             .unit = "us",
             .rival = "plain TCP there and back",
             .rival_value = median(theirs),
             .bar = {},
             .direction = better::lower,
             .ratio = median(ratios)});
  }
  std::vector<double> floods;
  for (int round = 0; round < rounds; round++) {
    double const begin = now_s();
    memory.flood(flood_count);
    floods.push_back((now_s() - begin) / flood_count * 1e6);
  }
  out.add({.what = provider + ", " + name + ": write of 8 B, one of 256 under way",
           .value = median(floods),
           .unit = "us",
           .rival = {},
           .rival_value = {},
           .bar = {},
           .direction = better::lower});
}

}  // namespace

void measure_latency(report &out, bool wants_waits) {
  for (const char *provider : {"o2g", "tcp;ofi_rxm"}) {
    measure_with(out, provider, owner_does::look, "both looking");
    if (wants_waits)
      measure_with(out, provider, owner_does::wait, "both waiting");
  }
  if (wants_waits)
    measure_with(out, "o2g", owner_does::compute, "the owner computing");
}

}  // namespace bench
