// bench/shmemg/unmapped.cu: calls of kernels to a PE whose memory is not mapped, which the host
// carries out, beside the same calls by the host itself. Prints lines "CALLER_CALL_SIZE value us":
// the time of one call where CALLER makes many. "host" is a loop of the program, "thread" one
// thread of a kernel, "warp" 32 of them, "blocks" 8 blocks of 32. Run with oshrun -n 2, with
// TND_PGAS_NODE=none.
//
// bench_shmemg_unmapped [--rounds N] [--calls N]
#include <shmemg.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "own_device.hpp"

namespace {

namespace simt = tanada::simt;
using tanada::u32;
using tanada::u64;

enum class call { put, put_quiet, get, fetch_add, add };

struct experiment {
  call kind;
  const char *name;
  u32 size;
};
constexpr experiment experiments[] = {{call::put, "put", 8},
                                      {call::put, "put", 4096},
                                      {call::put_quiet, "put_quiet", 8},
                                      {call::put_quiet, "put_quiet", 4096},
                                      {call::get, "get", 8},
                                      {call::get, "get", 4096},
                                      {call::fetch_add, "fetch_add", 8},
                                      {call::add, "add", 8}};

struct caller {
  const char *name;
  u32 blocks, threads;
};
constexpr caller callers[] = {{"thread", 1, 1}, {"warp", 1, 32}, {"blocks", 8, 32}};
constexpr u32 callers_max = 256, part_size = 4096;

struct memory {
  unsigned char *target, *source;
};

// The calls of one thread, each to a part of the memory that only this thread uses.
TND_DEVICE void make_calls(call kind, const memory &part, u32 size, u32 count, int pe) {
  auto *const word = reinterpret_cast<unsigned long *>(part.target);
  for (u32 i = 0; i < count; i++) {
    switch (kind) {
      case call::put:
        shmemg_putmem(part.target, part.source, size, pe);
        break;
      case call::put_quiet:
        shmemg_putmem(part.target, part.source, size, pe);
        shmemg_quiet();
        break;
      case call::get:
        shmemg_getmem(part.source, part.target, size, pe);
        break;
      case call::fetch_add:
        (void)shmemg_ulong_atomic_fetch_add(word, 1, pe);
        break;
      case call::add:
        shmemg_ulong_atomic_add(word, 1, pe);
        break;
    }
  }
  shmemg_quiet();
}

TND_KERNEL void calls(call kind, memory all, u32 size, u32 count, int pe) {
  u64 const offset = simt::global_thread_rank() * part_size;
  make_calls(kind, {all.target + offset, all.source + offset}, size, count, pe);
}

void make_calls_by_host(call kind, const memory &part, u32 size, u32 count, int pe) {
  auto *const word = reinterpret_cast<unsigned long *>(part.target);
  for (u32 i = 0; i < count; i++) {
    switch (kind) {
      case call::put:
        shmem_putmem(part.target, part.source, size, pe);
        break;
      case call::put_quiet:
        shmem_putmem(part.target, part.source, size, pe);
        shmem_quiet();
        break;
      case call::get:
        shmem_getmem(part.source, part.target, size, pe);
        break;
      case call::fetch_add:
        (void)shmem_ulong_atomic_fetch_add(word, 1, pe);
        break;
      case call::add:
        shmem_ulong_atomic_add(word, 1, pe);
        break;
    }
  }
  shmem_quiet();
}

void wait_for_kernels() {
#if TND_SIMT_CUDA
  if (cudaDeviceSynchronize() != cudaSuccess)
    std::exit(3);
#else
  static_cast<void>(simt::host::synchronize(~u64{0}));
#endif
}

// Microseconds of `work`.
template <class Work>
double time_of(Work work) {
  auto const begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The median of rounds, in microseconds for one call.
template <class Work>
void measure(const char *who, const experiment &chosen, u32 rounds, u32 calls_made, Work work) {
  std::vector<double> times;
  work();
  for (u32 round = 0; round < rounds; round++)
    times.push_back(time_of(work) / calls_made);
  std::sort(times.begin(), times.end());
  std::printf("%s_%s_%u %.3f us\n", who, chosen.name, chosen.size, times[times.size() / 2]);
  std::fflush(stdout);
}

void measure_all(const memory &all, u32 rounds, u32 call_count, int pe) {
  for (auto const &chosen : experiments) {
    measure("host", chosen, rounds, call_count, [&] {
      make_calls_by_host(chosen.kind, all, chosen.size, call_count, pe);
    });
    for (auto const &who : callers) {
      u32 const count = std::max(4u, call_count / (who.blocks * who.threads));
      measure(who.name, chosen, rounds, count * who.blocks * who.threads, [&] {
        simt::launch(simt::dim3(who.blocks),
                     simt::dim3(who.threads),
                     calls,
                     chosen.kind,
                     all,
                     chosen.size,
                     count,
                     pe);
        wait_for_kernels();
      });
    }
  }
}

u32 option(int argc, char **argv, const char *name, u32 standard) {
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], name) == 0)
      return std::max(1u, u32(std::strtoul(argv[i + 1], nullptr, 10)));
  return standard;
}

}  // namespace

int main(int argc, char **argv) {
  own_device::choose();
  int provided = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT,
                        &provided) != 0)
    return 2;
  u64 const size = u64{callers_max} * part_size;
  memory const all{static_cast<unsigned char *>(shmemg_calloc(size, 1)),
                   static_cast<unsigned char *>(shmemg_calloc(size, 1))};
  if (all.target == nullptr || all.source == nullptr)
    return 2;
  shmem_barrier_all();
  if (shmem_my_pe() == 0)
    measure_all(all,
                option(argc, argv, "--rounds", 5),
                option(argc, argv, "--calls", 1024),
                shmem_n_pes() - 1);
  shmem_barrier_all();
  shmem_finalize();
  return 0;
}
