// bench/shmemg/staging: device memory of PEs that no queue reaches: 1 KiB to 64 MiB between two
// device heaps, staged. It is compared with the fabric between host heaps and with the device's
// copies, alternating in the same run. Two PEs of one machine that share nothing
// (TND_PGAS_NODE=none); the other program waits in a barrier meanwhile.
//
// bench_shmemg_staging [--rounds N] [--json FILE]
#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../common/report.hpp"
#include "backends/local/local.hpp"
#include "onesided/job/context.hpp"
#include "onesided/job/job.hpp"
#include "seams/gpu/gpu.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr size_t size_max = size_t{64} << 20, batch_size = size_t{8} << 20;
constexpr uint64_t meeting_ns = 600'000'000'000;
constexpr double bar = 0.7;

int rounds = 5;

void need(status code, const char *what) {
  if (code != status::ok)
    throw std::runtime_error(std::string{what} + ": " + std::to_string(int(code)));
}

struct speeds {
  std::vector<double> staged_put, staged_get, fabric_put, fabric_get,
      copied;  // bytes a second, by round
};

struct machine {
  onesided::job &job;
  onesided::context &context;
  seams::device_queue &queue;
};

double speed_of(size_t size,
                const std::function<void(size_t)> &start,
                const std::function<void()> &end) {
  size_t const count = std::max<size_t>(1, batch_size / size);
  double const begin = now_s();
  for (size_t i = 0; i < count; i++)
    start(i * size % size_max);
  end();
  return double(count * size) / (now_s() - begin);
}

void measure(machine &on, size_t size, speeds &into) {
  auto *const device = on.job.device_heap().data(), *const host = on.job.heap().data();
  auto const quiet = [&] {
    need(on.context.quiet(), "quiet");
  };
  auto const put = [&](std::byte *heap) {
    return speed_of(
        size,
        [&](size_t at) {
          need(on.context.put_nbi(heap + at, heap + size_max + at, size, 1), "put");
        },
        quiet);
  };
  auto const get = [&](std::byte *heap) {
    return speed_of(
        size,
        [&](size_t at) {
          need(on.context.get_nbi(heap + size_max + at, heap + at, size, 1), "get");
        },
        quiet);
  };
  auto const copy = [&](std::byte *to, std::byte *from) {
    return speed_of(
        size,
        [&](size_t at) { need(on.queue.copy(to + at, from + at, size), "copy"); },
        [&] { need(on.queue.wait(~uint64_t{0}), "wait"); });
  };
  into.fabric_put.push_back(put(host));
  into.staged_put.push_back(put(device));
  into.fabric_get.push_back(get(host));
  into.staged_get.push_back(get(device));
  into.copied.push_back(std::min(copy(device, host), copy(host, device)));
}

std::string name_of(size_t size) {
  return size < (1 << 20) ? std::to_string(size >> 10) + " KiB"
                          : std::to_string(size >> 20) + " MiB";
}

void add_rows(report &out, size_t size, const speeds &of) {
  auto const row_of =
      [&](const char *what, const std::vector<double> &staged, const std::vector<double> &fabric) {
        std::vector<double> slower, ratios;
        for (size_t i = 0; i < staged.size(); i++) {
          slower.push_back(std::min(fabric[i], of.copied[i]));
          ratios.push_back(staged[i] / slower.back());
        }
        bool const is_copy = median(of.copied) < median(fabric);
        out.add({.what = name_of(size) + " " + what,
                 .value = median(staged) * 1e-9,
                 .unit = "GB/s",
                 .rival = is_copy ? "the device's copies" : "the fabric, host to host",
                 .rival_value = median(slower) * 1e-9,
                 .bar = bar,
                 .ratio = median(ratios)});
      };
  row_of("put", of.staged_put, of.fabric_put);
  row_of("get", of.staged_get, of.fabric_get);
}

void drive(machine &on, report &out) {
  for (size_t size = 1 << 10; size <= size_max; size *= 4) {
    speeds found, warm;
    measure(on, size, warm);
    for (int round = 0; round < rounds; round++)
      measure(on, size, found);
    add_rows(out, size, found);
  }
}

void live(seams::bootstrap &launcher, seams::gpu &device, report &out) {
  onesided::job_options options;
  options.heap_size = 2 * size_max;
  options.device_heap_size = 2 * size_max;
  options.shares_program_data = false;
  options.node = "none";
  options.device = &device;
  need(options.read_environment(), "the environment");
  options.node = "none";
  auto job = onesided::job::start(launcher, options);
  need(job.error(), "a job");
  auto lane = job.value()->lane_acquire(false);
  need(lane.error(), "a lane");
  {
    auto queue = job.value()->device_queue_open(), other = job.value()->device_queue_open();
    need(queue.error(), "a queue");
    need(other.error(), "a queue");
    onesided::context context{
        job.value()->map(), lane.value(), std::move(queue).value(), false, job.value()->staging()};
    machine on{*job.value(), context, *other.value()};
    std::fill(on.job.heap().begin(), on.job.heap().end(), std::byte{1});
    if (job.value()->me() == 0)
      drive(on, out);
  }
  job.value()->lane_release(lane.value());
  need(launcher.barrier(meeting_ns), "the end");
  need(job.value()->finish(), "finish");
}

int run(int argc, char **argv) {
  read_options(
      argc, argv, "bench/shmemg/staging.cc", [](const std::string &word, const char *value) {
        if (word != "--rounds")
          return false;
        rounds = std::max(1, std::stoi(value));
        return true;
      });
  std::vector<std::unique_ptr<seams::gpu>> devices;
  for (uint32_t i = 0; i < 2; i++) {
    auto opened = seams::gpu_open(seams::gpu_choice::automatic, i);
    if (!opened.ok() || opened.value()->info().is_cuda != (i == 0 ? opened.value()->info().is_cuda
                                                                  : devices[0]->info().is_cuda)) {
      opened = seams::gpu_open(seams::gpu_choice::automatic, 0);  // both on one
    }
    need(opened.error(), "a device");
    devices.push_back(std::move(opened).value());
  }
  report out{"shmemg_staging", devices[0]->info().name};
  auto launchers = backends::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; i++) {
    threads.emplace_back([&, i] {
      if (guarded("bench_shmemg_staging", [&] {
            live(*launchers[i], *devices[i], out);
            return 0;
          }) != 0)
        std::_Exit(1);
    });
  }
  for (auto &each : threads)
    each.join();
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_shmemg_staging", [&] { return bench::run(argc, argv); });
}
