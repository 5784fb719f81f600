// bench/shmemg/kernel_bench.hpp: measures kernels of any library that has the calls of `Library`,
// with the same loops for each.
//
// Library: device calls, by one thread: me, count, signal(word, value, pe), wait(word, value),
// quiet, put8(target, value, pe), fetch_add(word, value, pe), add(word, pe); sync_warp; by a block:
// put, put_signal, quiet_block, sync, barrier, broadcast, fcollect, alltoall, sum. Host calls:
// start, finish, allocate (zeroed), meet, launch(blocks, threads, kernel, arguments...),
// wait_for_kernels.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#if defined(__CUDACC__)
#  define BENCH_KERNEL __global__
// For kernels that are launched with the maximum number of threads.
#  define BENCH_WIDE_KERNEL __global__ __launch_bounds__(1024)
#  define BENCH_DEVICE __device__
#else
#  define BENCH_KERNEL
#  define BENCH_WIDE_KERNEL
#  define BENCH_DEVICE
#endif

namespace kernel_bench {

using word = unsigned long;

#if defined(__CUDACC__)
inline void cuda_check(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "a kernel %s: %s\n", what, cudaGetErrorString(code));
  std::exit(3);
}
template <class... Parameters, class... Arguments>
void cuda_launch(int blocks, int threads, void (*kernel)(Parameters...), Arguments... arguments) {
  kernel<<<unsigned(blocks), unsigned(threads)>>>(static_cast<Parameters>(arguments)...);
  cuda_check(cudaGetLastError(), "was refused");
}
inline void cuda_wait() {
  cuda_check(cudaDeviceSynchronize(), "failed");
}
#endif

struct sizes {
  word size_max = word{512} << 20, collective_size_max = word{16} << 20;
  int rounds = 2000, blocks = 128, threads = 1024;
  word words = 64;               // the number of rounds of which the latencies are means
  bool is_latency_only = false;  // only latencies
};

// ---- kernels. Times are nanoseconds of the device, in result[].

template <class Library>
BENCH_KERNEL void signals(word *signal, int rounds, uint64_t *result) {
  int const me = Library::me();
  if (me > 1)
    return;
  uint64_t begin = 0;
  for (int i = 1; i <= rounds + 20; i++) {
    if (i == 21)
      begin = Library::now_ns();
    if (me == 0) {
      Library::signal(signal, word(i), 1);
      Library::wait(signal, word(i));
    } else {
      Library::wait(signal, word(i));
      Library::signal(signal, word(i), 0);
    }
  }
  result[0] = Library::now_ns() - begin;
}

template <class Library>
BENCH_KERNEL void put_signals(
    word *signal, word *data, word *source, int rounds, uint64_t *result) {
  int const me = Library::me();
  if (me > 1)
    return;
  uint64_t begin = 0;
  for (int i = 1; i <= rounds + 20; i++) {
    if (i == 21)
      begin = Library::now_ns();
    if (me == 1)
      Library::wait(signal, word(i));
    Library::put_signal_thread(data, source, 8, signal, word(i), 1 - me);
    if (me == 0)
      Library::wait(signal, word(i));
  }
  result[0] = Library::now_ns() - begin;
}

template <class Library>
BENCH_KERNEL void puts_and_quiets(word *data, word *source, int rounds, uint64_t *result) {
  if (Library::me() != 0)
    return;
  int const pe = Library::count() - 1;
  uint64_t begin = 0;
  for (int i = 0; i < rounds + 20; i++) {
    if (i == 20)
      begin = Library::now_ns();
    Library::put8(data, word(i), pe);
    Library::quiet();
  }
  result[0] = Library::now_ns() - begin;
  for (int i = 0; i < rounds + 20; i++) {
    if (i == 20)
      begin = Library::now_ns();
    Library::put_thread(data, source, 8, pe);
    Library::quiet();
  }
  result[1] = Library::now_ns() - begin;
}

// Fetch-adds that each wait for the previous result; then independent ones of one thread and of a
// warp, and adds.
enum adding { one_at_a_time, as_they_come, by_a_warp, unasked, adding_count };
template <class Library>
BENCH_KERNEL void adds(word *data, int pe, int rounds, uint64_t *result) {
  if (Library::me() != 0)
    return;
  uint64_t begin = 0, took[adding_count] = {};
  word sum = 0;
  bool const is_first = Library::thread() == 0;
  if (is_first) {
    for (int i = 0; i < rounds + 20; i++) {
      if (i == 20)
        begin = Library::now_ns();
      if (Library::fetch_add(data, 1, pe) >> 63 != 0)
        return;
    }
    took[one_at_a_time] = Library::now_ns() - begin;
    for (int i = 0; i < rounds + 20; i++) {
      if (i == 20)
        begin = Library::now_ns();
      sum += Library::fetch_add(data, 1, pe);
    }
    took[as_they_come] = Library::now_ns() - begin + (sum >> 63);
    for (int i = 0; i < rounds + 20; i++) {
      if (i == 20)
        begin = Library::now_ns();
      Library::add(data, pe);
    }
    Library::quiet();
    took[unasked] = Library::now_ns() - begin;
  }
  Library::sync_warp();
  for (int i = 0; i < rounds / 4 + 20; i++) {
    if (i == 20)
      begin = Library::now_ns();
    sum += Library::fetch_add(data, 1, pe);
  }
  took[by_a_warp] = (Library::now_ns() - begin) * 4 + (sum >> 63);
  if (is_first)
    for (int i = 0; i < adding_count; i++)
      result[i] = took[i];
}

// Each block has a part of the size.
template <class Library>
BENCH_WIDE_KERNEL void block_puts(
    char *target, const char *source, word part, word size, int rounds) {
  if (Library::me() != 0)
    return;
  word const begin = part * Library::block();
  if (begin >= size)
    return;
  word const mine = begin + part < size ? part : size - begin;
  for (int i = 0; i < rounds; i++)
    Library::put(target + begin, source + begin, mine, Library::count() - 1);
  Library::quiet_block();
}

enum class collective { sync, barrier, broadcast, fcollect, alltoall, sum };
template <class Library, collective What>
BENCH_WIDE_KERNEL void collectives(
    float *target, float *source, word elements, int rounds, uint64_t *result) {
  uint64_t begin = 0;
  for (int i = 0; i < rounds + 5; i++) {
    if (i == 5)
      begin = Library::now_ns();
    if constexpr (What == collective::sync)
      Library::sync();
    if constexpr (What == collective::barrier)
      Library::barrier();
    if constexpr (What == collective::broadcast)
      Library::broadcast(target, source, elements);
    if constexpr (What == collective::fcollect)
      Library::fcollect(target, source, elements);
    if constexpr (What == collective::alltoall)
      Library::alltoall(target, source, elements);
    if constexpr (What == collective::sum)
      Library::sum(target, source, elements);
  }
  if (Library::thread() == 0)
    result[0] = Library::now_ns() - begin;
  Library::barrier();
}

// ---- the host's part: prints lines "name value unit"

template <class Library>
class bench {
 public:
  bench(Library &library, const sizes &what) : library_{library}, what_{what} {}

  void run() {
    data_ = static_cast<char *>(library_.allocate(what_.size_max));
    source_ = static_cast<char *>(library_.allocate(what_.size_max));
    word *const words = reinterpret_cast<word *>(data_);
    uint64_t *const result = library_.results();
    int const rounds = what_.rounds;
    word *const from = reinterpret_cast<word *>(source_);
    if (library_.pe_count() > 1) {
      each_word(words,
                1,
                [&](word *at) {
                  launch(1, 1, signals<Library>, at, rounds, result);
                  return values{double(result[0]) / 2};
                },
                {"signal_one_way"});
      each_word(words,
                1,
                [&](word *at) {
                  launch(1, 1, put_signals<Library>, at + 16, at + 64, from, rounds, result);
                  return values{double(result[0]) / 2};
                },
                {"put_signal_one_way"});
    }
    each_word(words,
              1,
              [&](word *at) {
                launch(1, 1, puts_and_quiets<Library>, at, from, rounds, result);
                return values{double(result[0]), double(result[1])};
              },
              {"p_quiet", "put_quiet"});
    for (bool const is_own : {true, false}) {
      each_word(
          words,
          is_own ? 4 : 1,
          [&](word *at) {
            launch(1, 32, adds<Library>, at, is_own ? 0 : library_.pe_count() - 1, rounds, result);
            return values{double(result[one_at_a_time]),
                          double(result[as_they_come]),
                          double(result[by_a_warp]),
                          double(result[unasked])};
          },
          is_own ? names{"fetch_add_own", "fetch_adds_own", "fetch_add_warp_own", "add_own"}
                 : names{"fetch_add", "fetch_adds", "fetch_add_warp", "add"});
    }
    if (what_.is_latency_only)
      return;
    for (word size = 8; size <= what_.size_max; size *= 4)
      put_size(size);
    if (what_.size_max >= (word{512} << 20))
      put_size(word{512} << 20);
    all_collectives();
  }

 private:
  template <class... Parameters, class... Arguments>
  double launch(int blocks, int threads, void (*kernel)(Parameters...), Arguments... arguments) {
    library_.meet();
    auto const begin = std::chrono::steady_clock::now();
    library_.launch(blocks, threads, kernel, arguments...);
    library_.wait_for_kernels();
    double const took =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    library_.meet();
    return took;
  }

  void print(const char *name, word size, double value, const char *unit) {
    if (library_.pe() != 0)
      return;
    std::printf("%s_%lu %.1f %s\n", name, size, value, unit);
    std::fflush(stdout);
  }

  using values = std::vector<double>;  // nanoseconds of all rounds, by measurement
  using names = std::vector<const char *>;
  static constexpr word words_apart = 528;  // 4,224 bytes: another page and another cache line for
                                            // each

  // The time of an operation on a word depends on its address by up to a third: report the mean of
  // many words, the minimum and the maximum.
  template <class Run>
  void each_word(word *words, word fewer, Run run, const names &what) {
    word const room = what_.size_max / sizeof(word) / words_apart;
    word const count = std::max<word>(1, std::min(room, what_.words / fewer));
    std::vector<values> found(what.size());
    for (word i = 0; i < count; i++) {
      values const took = run(words + i * words_apart);
      for (size_t k = 0; k < what.size(); k++)
        found[k].push_back(took[k] / what_.rounds);
    }
    for (size_t k = 0; k < what.size(); k++) {
      auto const [least, most] = std::minmax_element(found[k].begin(), found[k].end());
      std::string const name = what[k];
      print(name.c_str(),
            8,
            std::accumulate(found[k].begin(), found[k].end(), 0.0) / double(count),
            "ns");
      print((name + "_least").c_str(), 8, *least, "ns");
      print((name + "_most").c_str(), 8, *most, "ns");
    }
  }

  // The difference of two runs excludes the launch: the time of this many additional rounds.
  void put_size(word size) {
    for (int const blocks : {1, what_.blocks}) {
      word part = (size + word(blocks) - 1) / word(blocks);
      part = (part + 15) / 16 * 16;
      if (blocks > 1 && part < 4096)
        continue;
      int const few = 2,
                many =
                    few + int(std::min<word>(word(what_.rounds),
                                             (word{4} << 30) / size / (blocks == 1 ? 32 : 1) + 4));
      launch(blocks, what_.threads, block_puts<Library>, data_, source_, part, size, few);
      double const first =
          launch(blocks, what_.threads, block_puts<Library>, data_, source_, part, size, few);
      double const second =
          launch(blocks, what_.threads, block_puts<Library>, data_, source_, part, size, many);
      double const each = (second - first) / (many - few);
      print(blocks == 1 ? "block_put" : "blocks_put", size, double(size) / each, "GB/s");
    }
  }

  template <collective What>
  void measure(const char *name, word elements) {
    word const size = elements * sizeof(float);
    int const rounds =
        int(std::min<word>(word(what_.rounds), (word{256} << 20) / (size + 1) / 8 + 3));
    launch(1,
           what_.threads,
           collectives<Library, What>,
           reinterpret_cast<float *>(data_),
           reinterpret_cast<float *>(source_),
           elements,
           rounds,
           library_.results());
    print(name, size, double(library_.results()[0]) / rounds / 1000, "us");
  }
  void all_collectives() {
    measure<collective::sync>("sync", 0);
    measure<collective::barrier>("barrier", 0);
    for (word size = 8;
         size <= what_.collective_size_max && size * word(library_.pe_count()) <= what_.size_max;
         size *= 8) {
      measure<collective::broadcast>("broadcast", size / 4);
      measure<collective::fcollect>("fcollect", size / 4);
      measure<collective::alltoall>("alltoall", size / 4);
      measure<collective::sum>("sum_reduce", size / 4);
    }
  }

  Library &library_;
  sizes what_;
  char *data_ = nullptr, *source_ = nullptr;
};

// [--size-max BYTES] [--collective-size-max BYTES] [--rounds N] [--blocks N] [--threads N] [--words
// N] [--latency-only 1]
inline sizes read_arguments(int argc, char **argv) {
  sizes chosen;
  for (int i = 1; i + 1 < argc; i += 2) {
    word const value = std::strtoul(argv[i + 1], nullptr, 10);
    const char *const name = argv[i];
    auto const is = [&](const char *text) {
      return std::string_view{name} == text;
    };
    if (is("--size-max"))
      chosen.size_max = value;
    else if (is("--collective-size-max"))
      chosen.collective_size_max = value;
    else if (is("--rounds"))
      chosen.rounds = int(value);
    else if (is("--blocks"))
      chosen.blocks = int(value);
    else if (is("--threads"))
      chosen.threads = int(value);
    else if (is("--words"))
      chosen.words = value;
    else if (is("--latency-only"))
      chosen.is_latency_only = value != 0;
  }
  return chosen;
}

}  // namespace kernel_bench
