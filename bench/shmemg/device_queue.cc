// The cost of host code's one-sided operations on device memory: seams/gpu/device_queue.hpp
// compared with the runtime's synchronous copies, alternating. On two GPUs the peer is the second's
// memory, mapped for the first; on one, another block of the same GPU.
//
// bench_device_queue_cuda [--json FILE] [--rounds N] [--part latency|bandwidth|both]
#include <cuda_runtime.h>
#include <tanada/status.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "../common/report.hpp"
#include "seams/clock/clock.hpp"
#include "seams/gpu/gpu.hpp"

namespace {

using namespace tanada;

using namespace tanada::seams;

constexpr size_t heap_size = size_t{256} << 20;
constexpr uint64_t timeout_ns = 20'000'000'000;

void check(status code, const char *what) {
  if (code != status::ok)
    throw std::runtime_error(std::string{what} + ": " + last_message());
}
void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string{what} + ": " + cudaGetErrorString(error));
}
template <class T>
T value(result<T> got, const char *what) {
  check(got.error(), what);
  return std::move(got).value();
}

struct heap {
  std::unique_ptr<gpu> owner;
  shared_block block;
  std::byte *reached = nullptr;  // by the first GPU
};

// The first GPU's memory, and a peer's.
struct machine {
  heap own, peer;
  bool has_two;
  std::unique_ptr<device_queue> queue;
  std::byte *rivals[2] = {};  // from cudaMalloc, on the same two

  machine() {
    int count = 0;
    check(cudaGetDeviceCount(&count), "count");
    has_two = count > 1;
    own = open(0);
    peer = open(has_two ? 1 : 0);
    own.reached = static_cast<std::byte *>(own.block.addr);
    peer.reached = static_cast<std::byte *>(
        value(own.owner->map_shared(peer.block.descriptor, peer.block.size), "map"));
    queue = value(own.owner->queue_open(60'000'000'000), "queue");
    if (has_two) {
      check(cudaSetDevice(1), "device");
      (void)cudaDeviceEnablePeerAccess(0, 0);
      check(cudaMalloc(reinterpret_cast<void **>(&rivals[1]), heap_size), "malloc");
    }
    check(cudaSetDevice(0), "device");
    if (has_two)
      check(cudaDeviceEnablePeerAccess(1, 0), "peer access");
    check(cudaMalloc(reinterpret_cast<void **>(&rivals[0]), heap_size), "malloc");
    if (!has_two)
      check(cudaMalloc(reinterpret_cast<void **>(&rivals[1]), heap_size), "malloc");
  }
  machine(const machine &) = delete;
  ~machine() {
    queue.reset();
    own.owner->unmap_shared(peer.reached, peer.block.size);
    for (heap *each : {&own, &peer}) {
      each->owner->free_shared(each->block.addr, each->block.size);
      close(each->block.descriptor);
    }
    for (auto *each : rivals)
      (void)cudaFree(each);
  }

  static heap open(uint32_t index) {
    heap made;
    made.owner = value(gpu_open(gpu_choice::cuda, index), "GPU");
    made.block = value(made.owner->allocate_shared(heap_size), "heap");
    return made;
  }
  void wait() {
    check(queue->wait(deadline_after(monotonic_clock().now_ns(), timeout_ns)), "wait");
  }
};

// Median of the rounds, each the mean of its turns, in microseconds.
struct measured {
  double ours, theirs, ratio;
};
measured in_turn(int rounds,
                 int turns,
                 const std::function<void()> &our,
                 const std::function<void()> &their) {
  std::vector<double> ours, theirs, ratios;
  auto const timed = [&](const std::function<void()> &call) {
    for (int i = 0; i < turns / 10 + 1; i++)
      call();
    double const begin = bench::now_s();
    for (int i = 0; i < turns; i++)
      call();
    return (bench::now_s() - begin) / turns * 1e6;
  };
  for (int round = 0; round < rounds; round++) {
    ours.push_back(timed(our));
    theirs.push_back(timed(their));
    ratios.push_back(ours.back() / theirs.back());
  }
  return {bench::median(ours), bench::median(theirs), bench::median(ratios)};
}

struct operation {
  std::string what;
  std::function<void()> ours, theirs;
  std::optional<double> bar_us;
};

std::string size_name(size_t size) {
  return size >= 1 << 20   ? std::to_string(size >> 20) + " MiB"
         : size >= 1 << 10 ? std::to_string(size >> 10) + " KiB"
                           : std::to_string(size) + " B";
}

void measure_latency(bench::report &out, machine &on, int rounds) {
  std::vector<char> memory(65536);
  auto *const host = memory.data();
  auto &queue = *on.queue;
  std::byte *const own = on.own.reached, *const peer = on.peer.reached;
  auto const copied = [&](void *target, const void *source, size_t size) {
    return [=] {
      check(cudaMemcpy(target, source, size, cudaMemcpyDefault), "cudaMemcpy");
    };
  };
  auto const peer_copied = [&](size_t size) {
    return [&on, size] {
      check(cudaMemcpyPeer(on.rivals[1], on.has_two ? 1 : 0, on.rivals[0], 0, size),
            "cudaMemcpyPeer");
      check(cudaDeviceSynchronize(), "synchronize");
    };
  };
  std::vector<operation> all;
  for (size_t size :
       {size_t{8}, size_t{64}, size_t{1024}, size_t{4096}, size_t{16384}, size_t{65536}}) {
    std::string const name = size_name(size);
    bool const is_word = size == 8;
    all.push_back({name + " put, CPU -> own GPU, to local completion",
                   [&, size] { check(queue.put(own, host, size), "put"); },
                   copied(on.rivals[0], host, size),
                   is_word ? std::optional{2.2} : std::nullopt});
    all.push_back({name + " put + wait, CPU -> own GPU",
                   [&, size] {
                     check(queue.put(own, host, size), "put");
                     on.wait();
                   },
                   copied(on.rivals[0], host, size),
                   {}});
    all.push_back({name + " put + wait, CPU -> peer GPU",
                   [&, size] {
                     check(queue.put(peer, host, size), "put");
                     on.wait();
                   },
                   copied(on.rivals[1], host, size),
                   {}});
    all.push_back({name + " put + wait, own GPU -> peer GPU",
                   [&, size] {
                     check(queue.put(peer, own, size), "put");
                     on.wait();
                   },
                   peer_copied(size),
                   is_word ? std::optional{4.0} : std::nullopt});
    all.push_back({name + " copy + wait, peer GPU -> own GPU",
                   [&, size] {
                     check(queue.copy(own, peer, size), "copy");
                     on.wait();
                   },
                   peer_copied(size),
                   {}});
    all.push_back({name + " get, own GPU -> CPU",
                   [&, size] { check(queue.get(host, own, size), "get"); },
                   copied(host, on.rivals[0], size),
                   {}});
    all.push_back({name + " get, peer GPU -> CPU",
                   [&, size] { check(queue.get(host, peer, size), "get"); },
                   copied(host, on.rivals[1], size),
                   {}});
  }
  uint64_t before = 0;
  word_update const add{fabric_atomic::add, fabric_element::u64, 1, 0};
  all.push_back({"fetch-add, own GPU",
                 [&] { check(queue.update(own, add, &before), "update"); },
                 copied(host, on.rivals[0], 8),
                 {}});
  all.push_back({"fetch-add, peer GPU",
                 [&] { check(queue.update(peer, add, &before), "update"); },
                 copied(host, on.rivals[1], 8),
                 {}});
  all.push_back({"add + wait, peer GPU",
                 [&] {
                   check(queue.update(peer, add, nullptr), "update");
                   on.wait();
                 },
                 copied(on.rivals[1], host, 8),
                 {}});
  all.push_back({"8 B put, order, put + wait, CPU -> peer GPU",
                 [&] {
                   check(queue.put(peer, host, 8), "put");
                   check(queue.order(), "order");
                   check(queue.put(peer + 256, host, 8), "put");
                   on.wait();
                 },
                 copied(on.rivals[1], host, 8),
                 {}});
  std::vector<std::byte> strided(4096 * 2);
  all.push_back({"512 rows of 8 B + wait, own GPU -> peer GPU",
                 [&] {
                   check(queue.copy_rows(peer, own, {8, 512, 64, 64}), "rows");
                   on.wait();
                 },
                 [&] {
                   check(
                       cudaMemcpy2D(on.rivals[1], 64, on.rivals[0], 64, 8, 512, cudaMemcpyDefault),
                       "cudaMemcpy2D");
                   check(cudaDeviceSynchronize(), "synchronize");
                 },
                 {}});
  for (auto const &each : all) {
    measured const took = in_turn(rounds, 1000, each.ours, each.theirs);
    if (each.bar_us) {
      out.add({.what = each.what + " (the bar is in us)",
               .value = took.ours,
               .unit = "us",
               .rival = {},
               .rival_value = {},
               .bar = each.bar_us,
               .direction = bench::better::lower});
    }
    bool const is_peer = each.what.find("GPU -> peer") != std::string::npos ||
                         each.what.find("GPU -> own") != std::string::npos;
    out.add({.what = each.what,
             .value = took.ours,
             .unit = "us",
             .rival = is_peer ? "cudaMemcpyPeer, cudaMemcpy2D and waiting for them" : "cudaMemcpy",
             .rival_value = took.theirs,
             .bar = {},
             .direction = bench::better::lower,
             .ratio = took.ratio});
  }
}

// After a pause in which the service kernel ended, so that it is started again.
void measure_start(bench::report &out, machine &on, int rounds) {
  uint64_t word = 1;
  std::vector<double> puts, waits, ends;
  for (int i = 0; i < rounds * 20; i++) {
    monotonic_clock().sleep_ns(1'000'000);
    double const begin = bench::now_s();
    check(on.queue->put(on.own.reached, &word, 8), "put");
    puts.push_back((bench::now_s() - begin) * 1e6);
    on.wait();
    double const performed = bench::now_s();
    waits.push_back((performed - begin) * 1e6);
    check(cudaDeviceSynchronize(), "synchronize");
    ends.push_back((bench::now_s() - performed) * 1e6);
  }
  auto const add = [&](const char *what, const std::vector<double> &values) {
    out.add({.what = what,
             .value = bench::median(values),
             .unit = "us",
             .rival = {},
             .rival_value = {},
             .bar = {},
             .direction = bench::better::lower});
  };
  add("8 B put after a pause, to local completion", puts);
  add("8 B put + wait after a pause", waits);
  add("cudaDeviceSynchronize() after it", ends);
  double const begin = bench::now_s();
  constexpr int looks = 1'000'000;
  uint64_t found = 0;
  for (int i = 0; i < looks; i++)
    found += on.own.owner->is_device_memory(&word) ? 1 : 0;
  double const took_ns = (bench::now_s() - begin) * 1e9 / looks + double(found);
  out.add({.what = "is_device_memory of CPU memory",
           .value = took_ns,
           .unit = "ns",
           .rival = {},
           .rival_value = {},
           .bar = {},
           .direction = bench::better::lower});
}

void measure_bandwidth(bench::report &out, machine &on, int rounds) {
  std::vector<char> memory(heap_size, 1);
  for (size_t size = 8; size <= heap_size; size *= size < 4096 ? 8 : 4) {
    int const turns =
        int(std::max<size_t>(2, std::min<size_t>(1000, (size_t{1} << 30) / size / 2)));
    auto const add =
        [&](const char *what, const measured &took, const char *rival, std::optional<double> bar) {
          double const gigabytes = double(size) / 1e3;
          out.add({.what = size_name(size) + " " + what,
                   .value = gigabytes / took.ours,
                   .unit = "GB/s",
                   .rival = rival,
                   .rival_value = gigabytes / took.theirs,
                   .bar = size == heap_size ? bar : std::nullopt,
                   .direction = bench::better::higher,
                   .ratio = 1 / took.ratio});
        };
    auto const peer_copied = [&] {
      check(cudaMemcpyPeer(on.rivals[1], on.has_two ? 1 : 0, on.rivals[0], 0, size),
            "cudaMemcpyPeer");
      check(cudaDeviceSynchronize(), "synchronize");
    };
    add("put + wait, own GPU -> peer GPU",
        in_turn(
            rounds,
            turns,
            [&] {
              check(on.queue->put(on.peer.reached, on.own.reached, size), "put");
              on.wait();
            },
            peer_copied),
        "cudaMemcpyPeer and waiting for it",
        0.95);
    add("copy + wait, peer GPU -> own GPU",
        in_turn(
            rounds,
            turns,
            [&] {
              check(on.queue->copy(on.own.reached, on.peer.reached, size), "copy");
              on.wait();
            },
            peer_copied),
        "cudaMemcpyPeer and waiting for it",
        {});
    int const few = std::max(2, turns / 8);
    add("put + wait, CPU -> own GPU",
        in_turn(
            rounds,
            few,
            [&] {
              check(on.queue->put(on.own.reached, memory.data(), size), "put");
              on.wait();
            },
            [&] {
              check(cudaMemcpy(on.rivals[0], memory.data(), size, cudaMemcpyDefault), "cudaMemcpy");
            }),
        "cudaMemcpy",
        {});
    add("get, own GPU -> CPU",
        in_turn(
            rounds,
            few,
            [&] { check(on.queue->get(memory.data(), on.own.reached, size), "get"); },
            [&] {
              check(cudaMemcpy(memory.data(), on.rivals[0], size, cudaMemcpyDefault), "cudaMemcpy");
            }),
        "cudaMemcpy",
        {});
  }
}

}  // namespace

int main(int argc, char **argv) {
  return bench::guarded(argv[0], [&] {
    int rounds = 5;
    std::string part = "both";
    bench::read_options(argc,
                        argv,
                        "bench/shmemg/device_queue.cc",
                        [&](const std::string &word, const char *given) {
                          if (word == "--rounds")
                            rounds = std::atoi(given);
                          else if (word == "--part")
                            part = given;
                          else
                            return false;
                          return true;
                        });
    machine on;
    bench::report out{"device_queue", on.own.owner->info().name + (on.has_two ? ", two" : "")};
    if (part != "bandwidth")
      measure_latency(out, on, rounds);
    if (part != "bandwidth")
      measure_start(out, on, rounds);
    if (part != "latency")
      measure_bandwidth(out, on, rounds);
    return out.finish(argc, argv);
  });
}
