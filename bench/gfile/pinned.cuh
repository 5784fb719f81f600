// bench/gfile/pinned.cuh: pinned memory, copies and threads of programs without gfile.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "../../examples/common/device_memory.hpp"
#include "../common/report.hpp"

namespace bench {

inline constexpr uint64_t piece_size = 4u << 20;

#if TND_SIMT_CUDA
inline void *pinned(uint64_t size) {
  void *memory = nullptr;
  examples::cuda_check(cudaHostAlloc(&memory, size, cudaHostAllocPortable | cudaHostAllocMapped),
                       "cudaHostAlloc");
  return memory;
}
inline void unpin(void *memory) {
  (void)cudaFreeHost(memory);
}
struct stream {
  cudaStream_t handle;
  stream() {
    examples::cuda_check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
                         "cudaStreamCreate");
  }
  ~stream() {
    (void)cudaStreamDestroy(handle);
  }
  void copy(void *target, const void *source, uint64_t size) {
    examples::cuda_check(cudaMemcpyAsync(target, source, size, cudaMemcpyHostToDevice, handle),
                         "cudaMemcpyAsync");
  }
  void copy_back(void *target, const void *source, uint64_t size) {
    examples::cuda_check(cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToHost, handle),
                         "cudaMemcpyAsync");
  }
  void wait() {
    examples::cuda_check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
  }
};
inline void register_pages(void *pages, uint64_t size) {
  examples::cuda_check(
      cudaHostRegister(pages, size, cudaHostRegisterMapped | cudaHostRegisterReadOnly),
      "cudaHostRegister");
}
inline void unregister_pages(void *pages) {
  (void)cudaHostUnregister(pages);
}
inline void copy_on_device(void *target, const void *source, uint64_t size) {
  examples::cuda_check(cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToDevice),
                       "cudaMemcpyAsync");
  examples::device_wait();
}
#else
inline void *pinned(uint64_t size) {
  return examples::device_allocate(size);
}
inline void unpin(void *memory) {
  examples::device_free(memory);
}
struct stream {
  void copy(void *target, const void *source, uint64_t size) {
    std::memcpy(target, source, size);
  }
  void copy_back(void *target, const void *source, uint64_t size) {
    std::memcpy(target, source, size);
  }
  void wait() {}
};
inline void register_pages(void *, uint64_t) {}
inline void unregister_pages(void *) {}
inline void copy_on_device(void *target, const void *source, uint64_t size) {
  std::memcpy(target, source, size);
}
#endif

// Threads that start together after each has called `wait_for_start`, and end together. Returns
// when they started.
template <class Work>
double run_together(unsigned threads, Work work) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  auto const wait_for_start = [&] {
    ready++;
    while (!go)
      std::this_thread::yield();
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; i++)
    workers.emplace_back([&] { work(wait_for_start); });
  while (ready < threads)
    std::this_thread::yield();
  double const start = now_s();
  go = true;
  for (auto &worker : workers)
    worker.join();
  return start;
}

// Two pieces of pinned memory and their streams: one is filled while the other is emptied.
struct two_pieces {
  two_pieces() = default;
  ~two_pieces() {
    for (void *const each : buffers)
      unpin(each);
  }
  two_pieces(const two_pieces &) = delete;
  two_pieces &operator=(const two_pieces &) = delete;

  stream streams[2];
  void *const buffers[2] = {pinned(piece_size), pinned(piece_size)};
};

}  // namespace bench
