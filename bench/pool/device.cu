// bench_pool_device_cuda: device memory to the pool of the same node and back, beside copies between pinned host memory and the
// device, in turn. A put is create, write and commit, so the object can be read; what both move is compared.
#include <cuda_runtime.h>
#include <tanada/pool.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/check.hpp"
#include "../common/report.hpp"
#include "pool_daemon.hpp"

namespace bench {
namespace {

using bench::check;
void check(cudaError_t code, const char *call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
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

void put(tnd_pool *pool, const char *name, const void *source, uint64_t size) {
  tnd_pool_object *object = nullptr;
  check(tnd_pool_create(pool, name, size, 0, nullptr, &object), "tnd_pool_create");
  tnd_status const written = tnd_pool_write(object, 0, source, size, TND_POOL_MEMORY_DEVICE);
  tnd_status const code = written == TND_OK ? tnd_pool_commit(object, nullptr, nullptr) : written;
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

// The object's bytes, and what came back to the device, against what was meant.
void compare(tnd_pool *pool, const char *name, const buffers &with, uint64_t size) {
  std::vector<uint8_t> found(size);
  uint64_t found_size = 0;
  check(tnd_pool_get(pool, name, found.data(), size, &found_size, 0), "tnd_pool_get");
  if (found_size != size || std::memcmp(found.data(), with.pinned, size) != 0)
    throw std::runtime_error("the pool holds other bytes than the device");
  check(cudaMemset(with.device, 0, size), "cudaMemset");
  get(pool, name, with.device, size);
  check(cudaMemcpy(found.data(), with.device, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (std::memcmp(found.data(), with.pinned, size) != 0) throw std::runtime_error("the device has other bytes than the pool");
}

void rows(report &out, tnd_pool *pool, uint64_t size, unsigned rounds, std::optional<double> bar) {
  buffers const with{size};
  std::string const name = "device_" + std::to_string(size), how_much = std::to_string(size >> 20) + " MiB";
  double const first = seconds([&] { put(pool, name.c_str(), with.device, size); });
  compare(pool, name.c_str(), with, size);
  std::vector<double> put_s, get_s, down_s, up_s, put_ratios, get_ratios;
  for (unsigned i = 0; i < rounds; i++) {
    down_s.push_back(seconds([&] { check(cudaMemcpy(with.pinned, with.device, size, cudaMemcpyDeviceToHost), "cudaMemcpy"); }));
    put_s.push_back(seconds([&] { put(pool, name.c_str(), with.device, size); }));
    up_s.push_back(seconds([&] { check(cudaMemcpy(with.device, with.pinned, size, cudaMemcpyHostToDevice), "cudaMemcpy"); }));
    get_s.push_back(seconds([&] {
      get(pool, name.c_str(), with.device, size);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }));
    put_ratios.push_back(down_s.back() / put_s.back());
    get_ratios.push_back(up_s.back() / get_s.back());
  }
  double const gb = double(size) / 1e9;
  out.add({"device memory to the pool on the same node, " + how_much, gb / median(put_s), "GB/s", "cudaMemcpy to pinned host memory",
           gb / median(down_s), bar, better::higher, median(put_ratios)});
  out.add({"the pool on the same node to device memory, " + how_much, gb / median(get_s), "GB/s",
           "cudaMemcpy from pinned host memory", gb / median(up_s), std::nullopt, better::higher, median(get_ratios)});
  out.add({"the first put of " + how_much, first * 1e3, "ms", "", std::nullopt, std::nullopt, better::lower});
}

std::string device_name() {
  cudaDeviceProp about{};
  check(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
  return about.name;
}

int run(int argc, char **argv) {
  report out{"pool_device", device_name()};
  pool_daemon daemon{uint64_t{5} << 30};
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(daemon.url("device").c_str(), nullptr, &pool), "tnd_pool_connect");
  tnd_pool_connection what{};
  what.struct_size = sizeof what;
  check(tnd_pool_get_connection(pool, &what), "tnd_pool_get_connection");
  std::fprintf(stderr, "  path %u %s\n", what.path, what.reason);
  rows(out, pool, uint64_t{1} << 30, 9, 0.85);
  rows(out, pool, uint64_t{64} << 20, 21, std::nullopt);
  tnd_pool_disconnect(pool);
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_pool_device", [=] { return bench::run(argc, argv); });
}
