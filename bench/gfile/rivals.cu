#include "rivals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../examples/common/device_memory.hpp"
#include "../common/report.hpp"

namespace bench {

using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

namespace {

constexpr uint64_t piece_size = 4u << 20;

int open_file(const std::string &path) {
  int const fd = open(path.c_str(), O_RDONLY);
  if (fd < 0) throw std::runtime_error("cannot open " + path);
  return fd;
}

void read_piece(int fd, void *target, uint64_t offset, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    ssize_t const got = pread(fd, static_cast<char *>(target) + done, size - done, off_t(offset + done));
    if (got <= 0) throw std::runtime_error("pread failed");
    done += uint64_t(got);
  }
}

#if TND_SIMT_CUDA
void *pinned(uint64_t size) {
  void *memory = nullptr;
  examples::cuda_check(cudaHostAlloc(&memory, size, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  return memory;
}
void unpin(void *memory) { (void)cudaFreeHost(memory); }
struct stream {
  cudaStream_t handle;
  stream() { examples::cuda_check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~stream() { (void)cudaStreamDestroy(handle); }
  void copy(void *target, const void *source, uint64_t size) {
    examples::cuda_check(cudaMemcpyAsync(target, source, size, cudaMemcpyHostToDevice, handle), "cudaMemcpyAsync");
  }
  void wait() { examples::cuda_check(cudaStreamSynchronize(handle), "cudaStreamSynchronize"); }
};
#else
void *pinned(uint64_t size) { return examples::device_allocate(size); }
void unpin(void *memory) { examples::device_free(memory); }
struct stream {
  void copy(void *target, const void *source, uint64_t size) { std::memcpy(target, source, size); }
  void wait() {}
};
#endif

}  // namespace

double read_naively(const std::string &path, void *target, uint64_t size) {
  int const fd = open_file(path);
  std::vector<u8> buffer(piece_size);
  double const start = now_s();
  for (uint64_t at = 0; at < size; at += piece_size) {
    uint64_t const piece = std::min(piece_size, size - at);
    read_piece(fd, buffer.data(), at, piece);
    examples::copy_to_device(static_cast<u8 *>(target) + at, buffer.data(), piece);
  }
  double const took = now_s() - start;
  close(fd);
  return took;
}

double read_by_hand(const std::string &path, void *target, uint64_t size, unsigned threads) {
  int const fd = open_file(path);
  std::atomic<uint64_t> next{0};
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; i++)
    workers.emplace_back([&] {
      stream streams[2];
      void *buffers[2] = {pinned(piece_size), pinned(piece_size)};
      std::memset(buffers[0], 0, piece_size);
      std::memset(buffers[1], 0, piece_size);
      ready++;
      while (!go) std::this_thread::yield();
      for (unsigned turn = 0;; turn ^= 1) {
        uint64_t const at = next.fetch_add(piece_size);
        if (at >= size) break;
        uint64_t const piece = std::min(piece_size, size - at);
        streams[turn].wait();
        read_piece(fd, buffers[turn], at, piece);
        streams[turn].copy(static_cast<u8 *>(target) + at, buffers[turn], piece);
      }
      streams[0].wait();
      streams[1].wait();
      unpin(buffers[0]);
      unpin(buffers[1]);
    });
  while (ready < threads) std::this_thread::yield();
  double const start = now_s();
  go = true;
  for (auto &worker : workers) worker.join();
  double const took = now_s() - start;
  close(fd);
  return took;
}

namespace {

TND_KERNEL void read_random_pages(const u8 *pages, u64 page_count, u32 reads, u8 *target) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 state = me * 0x9E3779B97F4A7C15ull + 12345;
  for (u32 i = 0; i < reads; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    tanada::simt::copy_from_host(warp, target + me * 4096, pages + (state >> 24) % page_count * 4096, 4096);
    warp.sync();
  }
}

TND_KERNEL void ping(u32 *request, u32 *reply, u32 rounds) {
  for (u32 i = 1; i <= rounds; i++) {
    tanada::simt::system_atomic<u32>(*request).store_release(i);
    while (tanada::simt::system_atomic<u32>(*reply).load_acquire() != i) tanada::simt::pause(0);
  }
}

}  // namespace

double random_pinned_reads(uint64_t size, unsigned blocks, unsigned reads_a_warp) {
  u8 *const pages = static_cast<u8 *>(pinned(size));
  std::memset(pages, 1, size);
  u32 const threads = examples::on_gpu ? 512 : 32, warps = blocks * threads / 32;
  examples::device_array<u8> target(u64(warps) * 4096);
  std::vector<double> rates;
  for (int i = 0; i < 5; i++) {
    double const start = now_s();
    tanada::simt::launch(dim3(blocks), dim3(threads), read_random_pages, static_cast<const u8 *>(pages), size / 4096, reads_a_warp,
                         target.data());
    examples::device_wait();
    rates.push_back(double(warps) * reads_a_warp / (now_s() - start));
  }
  unpin(pages);
  return median(rates);
}

double round_trip(unsigned rounds) {
  u32 *const words = static_cast<u32 *>(pinned(4096));
  u32 *const request = words, *const reply = words + 64;
  std::vector<double> times;
  for (int i = 0; i < 5; i++) {
    *request = *reply = 0;
    double const start = now_s();
    tanada::simt::launch(dim3(1), dim3(1), ping, request, reply, rounds);
    for (u32 seen = 0; seen < rounds;) {
      u32 const now = __atomic_load_n(request, __ATOMIC_ACQUIRE);
      if (now == seen) {
        if (!examples::on_gpu) std::this_thread::yield();
        continue;
      }
      __atomic_store_n(reply, seen = now, __ATOMIC_RELEASE);
    }
    examples::device_wait();
    times.push_back((now_s() - start) / rounds);
  }
  unpin(words);
  return median(times);
}

std::string device_name() {
#if TND_SIMT_CUDA
  cudaDeviceProp properties;
  examples::cuda_check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
#else
  return "host executor";
#endif
}

}  // namespace bench
