// bench_pool_device_cuda: transfers of device memory to the pool of the same node and back,
// compared with copies between pinned host memory and the device, alternating. A put is create,
// write and commit, so the object can be read. Both transfers are verified. First come the puts
// with which a training job begins: the first one of the process, puts into memory that no put has
// used, and those of four threads with a connection each.
//
// --only firsts  only the first puts of processes, and no report
//   --costs on     also the cost of the steps of a first put, on standard error
//
// With TND_LOG=debug the library logs the time of each step of a transfer.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <tanada/pool.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../common/check.hpp"
#include "../common/report.hpp"
#include "device_costs.hpp"
#include "pool_daemon.hpp"

namespace bench {
namespace {

using bench::check;
void check(cudaError_t code, const char *call) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}

// Memory on the device and pinned memory of the host, of one size, with the same bytes.
struct buffers {
  explicit buffers(uint64_t size) {
    check(cudaMalloc(&device, size), "cudaMalloc");
    check(cudaMallocHost(&pinned, size), "cudaMallocHost");
    for (uint64_t at = 0; at + 8 <= size; at += 8) {
      uint64_t const word = (at + 1) * 0x9E3779B97F4A7C15ull;
      std::memcpy(static_cast<uint8_t *>(pinned) + at, &word, 8);
    }
    check(cudaMemcpy(device, pinned, size, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~buffers() {
    (void)cudaFreeHost(pinned);
    (void)cudaFree(device);
  }
  buffers(const buffers &) = delete;
  void *device = nullptr, *pinned = nullptr;
};

void put(tnd_pool *pool,
         const char *name,
         const void *source,
         uint64_t size,
         const tnd_pool_commit_options *options = nullptr) {
  tnd_pool_object *object = nullptr;
  check(tnd_pool_create(pool, name, size, 0, nullptr, &object), "tnd_pool_create");
  tnd_status const written = tnd_pool_write(object, 0, source, size, TND_POOL_MEMORY_DEVICE);
  tnd_status const code = written == TND_OK ? tnd_pool_commit(object, options, nullptr) : written;
  tnd_pool_close(object);
  check(code, "a put of device memory");
}

void get(tnd_pool *pool, const char *name, void *target, uint64_t size) {
  tnd_pool_object *object = nullptr;
  check(tnd_pool_open(pool, name, 0, &object), "tnd_pool_open");
  tnd_status const code = tnd_pool_read(object, 0, target, size, TND_POOL_MEMORY_DEVICE, nullptr);
  tnd_pool_close(object);
  check(code, "a get to device memory");
}

template <class Call>
double seconds(const Call &call) {
  double const start = now_s();
  call();
  return now_s() - start;
}

// Compares the object's bytes, and those that returned to the device, with the intended ones.
void compare(tnd_pool *pool, const char *name, const buffers &with, uint64_t size) {
  std::vector<uint8_t> found(size);
  uint64_t found_size = 0;
  check(tnd_pool_get(pool, name, found.data(), size, &found_size, 0), "tnd_pool_get");
  if (found_size != size || std::memcmp(found.data(), with.pinned, size) != 0)
    throw std::runtime_error("the pool holds other bytes than the device");
  check(cudaMemset(with.device, 0, size), "cudaMemset");
  get(pool, name, with.device, size);
  check(cudaMemcpy(found.data(), with.device, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (std::memcmp(found.data(), with.pinned, size) != 0)
    throw std::runtime_error("the device has other bytes than the pool");
}

constexpr double first_bar = 0.6;  // of the later puts

std::string size_text(uint64_t size) {
  return std::to_string(size >> 20) + " MiB";
}

// The first put of a process that has used its GPU before it connects; `pause_s` is its computing
// in between. It runs in a process of its own: the caller must not have used CUDA yet.
struct first_put {
  uint64_t size;
  double pause_s;
  bool is_summed = false;
};

double first_put_s(const std::string &url, const first_put &how) {
  uint64_t const size = how.size;
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0)
    throw std::runtime_error("pipe");
  pid_t const child = fork();
  if (child < 0)
    throw std::runtime_error("fork");
  if (child == 0) {
    int const code = guarded("first put", [&] {
      buffers const with{size};
      tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
      if (how.is_summed)
        options.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
      tnd_pool *pool = nullptr;
      double const connect_s = seconds(
          [&] { check(tnd_pool_connect(url.c_str(), nullptr, &pool), "tnd_pool_connect"); });
      std::this_thread::sleep_for(std::chrono::duration<double>(how.pause_s));
      double const first_s = seconds([&] { put(pool, "first", with.device, size, &options); });
      std::fprintf(stderr,
                   "  %s%s, %.0f s after the connect: connect %.3f ms, put %.3f ms, %.2f GB/s\n",
                   size_text(size).c_str(),
                   how.is_summed ? " with CRC32C" : "",
                   how.pause_s,
                   connect_s * 1e3,
                   first_s * 1e3,
                   double(size) / 1e9 / first_s);
      compare(pool, "first", with, size);
      check(tnd_pool_remove(pool, "first", 0), "tnd_pool_remove");
      tnd_pool_disconnect(pool);
      return write(ends[1], &first_s, sizeof first_s) == sizeof first_s ? 0 : 1;
    });
    _exit(code);
  }
  double first_s = 0;
  close(ends[1]);
  bool const is_there = read(ends[0], &first_s, sizeof first_s) == sizeof first_s;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!is_there || status != 0)
    throw std::runtime_error("the process of a first put failed");
  return first_s;
}

// With an object, its memory stays from one process to the next, as for a job that is restarted.
void keep_namespace(const std::string &url) {
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(url.c_str(), nullptr, &pool), "tnd_pool_connect");
  check(tnd_pool_put(pool, "kept", "x", 1, 0, nullptr), "tnd_pool_put");
  tnd_pool_disconnect(pool);
}

struct first_result {
  first_put how;
  double first_s;
};

void first_row(report &out, const first_result &first, double later) {
  std::string const pause = first.how.pause_s == 0 ? "at once" : "a second";
  std::string const sum = first.how.is_summed ? "with CRC32C, " : "";
  double const gb_s = double(first.how.size) / 1e9 / first.first_s;
  std::optional<double> const bar = first.how.is_summed ? std::nullopt : std::optional{first_bar};
  out.add({"the first put of a process from device memory, " + sum + pause +
               " after it connected, " + size_text(first.how.size),
           gb_s,
           "GB/s",
           "later puts",
           later,
           bar,
           better::higher,
           gb_s / later});
}

// Puts of new names, one after another, each into memory that no put has used.
void new_row(report &out, tnd_pool *pool, const buffers &with, uint64_t size, double later) {
  constexpr int new_count = 4;
  std::vector<double> new_s;
  for (int i = 0; i < new_count; i++) {
    new_s.push_back(
        seconds([&] { put(pool, ("new_" + std::to_string(i)).c_str(), with.device, size); }));
  }
  compare(pool, "new_3", with, size);
  for (int i = 0; i < new_count; i++)
    check(tnd_pool_remove(pool, ("new_" + std::to_string(i)).c_str(), 0), "tnd_pool_remove");
  double const gb_s = double(size) / 1e9 / median(new_s);
  out.add({"puts from device memory into memory that no put has used, one after another, " +
               size_text(size),
           gb_s,
           "GB/s",
           "later puts",
           later,
           first_bar,
           better::higher,
           gb_s / later});
}

// Four threads, each with a connection and a quarter of the bytes; `later` is one thread's GB/s.
void thread_row(
    report &out, const std::string &url, const buffers &with, uint64_t size, double later) {
  constexpr unsigned thread_count = 4;
  uint64_t const share = size / thread_count;
  double const all_s = seconds([&] {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thread_count; i++) {
      threads.emplace_back([&, i] {
        tnd_pool *pool = nullptr;
        check(tnd_pool_connect(url.c_str(), nullptr, &pool), "tnd_pool_connect");
        std::string const name = "thread_" + std::to_string(i);
        put(pool, name.c_str(), static_cast<const uint8_t *>(with.device) + i * share, share);
        tnd_pool_disconnect(pool);
      });
    }
    for (std::thread &each : threads)
      each.join();
  });
  double const gb_s = double(size) / 1e9 / all_s;
  out.add({"connections and first puts of four threads, " + size_text(size) + " in all",
           gb_s,
           "GB/s",
           "later puts of one thread",
           later,
           first_bar,
           better::higher,
           gb_s / later});
}

// The checksum is computed over the bytes in the pool.
void checksum_row(report &out, tnd_pool *pool, const buffers &with, uint64_t size, double later) {
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
  std::vector<double> put_s;
  for (int i = 0; i < 9; i++)
    put_s.push_back(seconds([&] { put(pool, "summed", with.device, size, &options); }));
  compare(pool, "summed", with, size);
  double const gb_s = double(size) / 1e9 / median(put_s);
  out.add({"puts from device memory with CRC32C, " + size_text(size),
           gb_s,
           "GB/s",
           "without a checksum",
           later,
           std::nullopt,
           better::higher,
           gb_s / later});
}

// Returns GB/s of puts.
double rows(
    report &out, tnd_pool *pool, uint64_t size, unsigned rounds, std::optional<double> bar) {
  buffers const with{size};
  std::string const name = "device_" + std::to_string(size), how_much = size_text(size);
  put(pool, name.c_str(), with.device, size);
  compare(pool, name.c_str(), with, size);
  put(pool, name.c_str(), with.device, size);
  std::this_thread::sleep_for(std::chrono::seconds{2});  // both versions' memory is registered
  std::vector<double> put_s, get_s, down_s, up_s, put_ratios, get_ratios;
  for (unsigned i = 0; i < rounds; i++) {
    down_s.push_back(seconds([&] {
      check(cudaMemcpy(with.pinned, with.device, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
    }));
    put_s.push_back(seconds([&] { put(pool, name.c_str(), with.device, size); }));
    up_s.push_back(seconds([&] {
      check(cudaMemcpy(with.device, with.pinned, size, cudaMemcpyHostToDevice), "cudaMemcpy");
    }));
    get_s.push_back(seconds([&] {
      get(pool, name.c_str(), with.device, size);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }));
    put_ratios.push_back(down_s.back() / put_s.back());
    get_ratios.push_back(up_s.back() / get_s.back());
  }
  double const gb = double(size) / 1e9;
  out.add({"device memory to the pool on the same node, " + how_much,
           gb / median(put_s),
           "GB/s",
           "cudaMemcpy to pinned host memory",
           gb / median(down_s),
           bar,
           better::higher,
           median(put_ratios)});
  out.add({"the pool on the same node to device memory, " + how_much,
           gb / median(get_s),
           "GB/s",
           "cudaMemcpy from pinned host memory",
           gb / median(up_s),
           std::nullopt,
           better::higher,
           median(get_ratios)});
  return gb / median(put_s);
}

std::string device_name() {
  cudaDeviceProp about{};
  check(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
  return about.name;
}

int run(int argc, char **argv) {
  constexpr uint64_t large = uint64_t{1} << 30, small = uint64_t{64} << 20;
  bool has_costs = false;
  std::string only;
  read_options(argc, argv, "bench/pool/device.cu", [&](const std::string &word, const char *value) {
    if (word == "--only")
      only = value;
    else if (word == "--costs")
      has_costs = std::string{value} == "on";
    else
      return false;
    return true;
  });
  double const start = now_s();
  pool_daemon daemon{uint64_t{12} << 30};
  std::fprintf(stderr, "  the daemon took %.2f s to start\n", now_s() - start);
  keep_namespace(daemon.url("firsts"));
  std::vector<first_result> firsts;
  for (first_put const &how :
       {first_put{large, 0}, {large, 1}, {small, 0}, {small, 1}, {large, 1, true}}) {
    firsts.push_back({how, first_put_s(daemon.url("firsts"), how)});
  }
  if (has_costs)
    print_device_costs();
  if (only == "firsts")
    return 0;
  report out{"pool_device", device_name()};
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(daemon.url("device").c_str(), nullptr, &pool), "tnd_pool_connect");
  tnd_pool_connection what{};
  what.struct_size = sizeof what;
  check(tnd_pool_get_connection(pool, &what), "tnd_pool_get_connection");
  std::fprintf(stderr, "  path %u %s\n", what.path, what.reason);
  double const later = rows(out, pool, large, 9, 0.85);
  double const later_small = rows(out, pool, small, 21, std::nullopt);
  for (const first_result &each : firsts)
    first_row(out, each, each.how.size == large ? later : later_small);
  buffers const with{large};
  new_row(out, pool, with, large, later);
  thread_row(out, daemon.url("threads"), with, large, later);
  checksum_row(out, pool, with, large, later);
  tnd_pool_disconnect(pool);
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_pool_device", [=] { return bench::run(argc, argv); });
}
