// tests/e2e/shmem_gpu/stream_test.hpp: shared parts of the programs on streams: a stream, kernels
// queued in it, and their checks.
#pragma once

#include <shmemx_on_stream.cuh>

#include "kernel_test.hpp"

namespace kernel_test {

inline constexpr u32 blocks = TND_SIMT_CUDA ? 64 : 2, threads = TND_SIMT_CUDA ? 256 : 32;
inline shmemx_stream_t stream{};

TND_DEVICE inline u64 grid_thread_count() {
  return u64(simt::grid_size_x()) * simt::block_size_x();
}

// Call it after start().
inline void make_stream() {
#if TND_SIMT_CUDA
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
#endif
}

template <class... Parameters, class... Arguments>
void queue(void (*kernel)(Parameters...), Arguments... arguments) {
  REQUIRE(simt::try_launch_on(stream, {blocks}, {threads}, kernel, arguments...));
}

// Waits for queued work and checks that it found no error.
inline void look(int line) {
#if TND_SIMT_CUDA
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
#endif
  synchronize(line);
  findings seen;
  copy(&seen, found_here, sizeof seen);
  if (seen.wrong == 0)
    return;
  std::fprintf(stderr,
               "PE %d: %llu values are wrong; the first at line %llu: %#llx, should be %#llx\n",
               me,
               seen.wrong,
               seen.line,
               seen.found,
               seen.expected);
  fail(line, "on the stream");
}

}  // namespace kernel_test
