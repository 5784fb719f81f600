// tests/e2e/shmem_gpu/kernel_test.hpp: shared parts of programs with kernels: the job, memory,
// launches and checks. One source for a GPU and for the host executor.
#pragma once

#include <shmemg.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <tanada/device/detail/simt/launch.hpp>

namespace kernel_test {

using tanada::u32;
using tanada::u64;
using tanada::u8;
namespace simt = tanada::simt;

inline int me, count;

// Failed checks in kernels, kept in the device heap: their number, and the first one.
struct findings {
  u64 wrong;
  u64 line, expected, found;
};
inline findings *found_here;

[[noreturn]] inline void fail(int line, const char *what) {
  std::fprintf(stderr, "PE %d, line %d: %s\n", me, line, what);
  std::fflush(stderr);
  shmem_global_exit(3);
  std::abort();
}
#define REQUIRE(condition) \
  ((condition) ? (void)0 : ::kernel_test::fail(__LINE__, #condition " does not hold"))

// From pageable memory, cudaMemcpy() returns before the bytes are on the GPU, where a store of
// another PE could be faster.
inline void copy(void *target, const void *source, size_t size) {
#if TND_SIMT_CUDA
  REQUIRE(cudaMemcpy(target, source, size, cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
#else
  std::memcpy(target, source, size);
#endif
}

// Waits for the kernels launched so far.
inline void synchronize(int line) {
#if TND_SIMT_CUDA
  cudaError_t const code = cudaDeviceSynchronize();
  if (code != cudaSuccess)
    fail(line, cudaGetErrorString(code));
#else
  if (!simt::host::synchronize(simt::host::now_ns() + 100'000'000'000))
    fail(line, "kernels do not end");
#endif
}

// In a kernel: records a failed check.
TND_DEVICE inline void expect(findings *to, u64 expected, u64 found, u32 line) {
  if (expected == found)
    return;
  if (simt::system_atomic<u64>(to->wrong).fetch_add_relaxed(1) != 0)
    return;
  to->line = line;
  to->expected = expected;
  to->found = found;
}
#define EXPECT(to, expected, found) \
  ::kernel_test::expect(to, ::kernel_test::u64(expected), ::kernel_test::u64(found), __LINE__)

template <class T>
T *allocate(size_t element_count) {
  auto *const made = static_cast<T *>(shmemg_malloc(element_count * sizeof(T)));
  REQUIRE(made != nullptr);
  std::vector<T> const zeros(element_count);
  copy(made, zeros.data(), element_count * sizeof(T));
  shmem_barrier_all();
  return made;
}

// Launches, waits, and evaluates the kernels' checks. Collective.
template <class... Parameters, class... Arguments>
void run(int line, u32 blocks, u32 threads, void (*kernel)(Parameters...), Arguments... arguments) {
  shmem_barrier_all();
  simt::launch(simt::dim3(blocks), simt::dim3(threads), kernel, arguments...);
  synchronize(line);
  findings seen;
  copy(&seen, found_here, sizeof seen);
  if (seen.wrong != 0) {
    std::fprintf(stderr,
                 "PE %d: %llu values are wrong; the first at line %llu: %llu (%#llx), should be "
                 "%llu (%#llx)\n",
                 me,
                 seen.wrong,
                 seen.line,
                 seen.found,
                 seen.found,
                 seen.expected,
                 seen.expected);
    fail(line, "in this kernel");
  }
  shmem_barrier_all();
}
#define RUN(blocks, threads, ...) ::kernel_test::run(__LINE__, blocks, threads, __VA_ARGS__)

inline void start() {
#if TND_SIMT_CUDA
  int devices = 0, rank = 0;
  const char *const text = std::getenv("PMIX_RANK");
  if (text != nullptr)
    rank = std::atoi(text);
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0)
    static_cast<void>(cudaSetDevice(rank % devices));
#endif
  int provided = 0;
  constexpr int wanted = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | wanted, &provided) != 0 ||
      (provided & wanted) != wanted) {
    std::fprintf(stderr,
                 "kernels cannot call: provided 0x%x of 0x%x\n",
                 unsigned(provided),
                 unsigned(wanted));
    std::exit(2);
  }
  me = shmem_my_pe();
  count = shmem_n_pes();
  found_here = allocate<findings>(1);
}

inline int finish(const char *name) {
  shmem_barrier_all();
  if (me == 0)
    std::printf("%s passed with %d PEs\n", name, count);
  std::fflush(stdout);
  shmem_finalize();
  return 0;
}

}  // namespace kernel_test
