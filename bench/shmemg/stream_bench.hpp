// bench/shmemg/stream_bench.hpp: collectives in the order of a stream, for any library that has the
// calls of `Library`, with the same loop for each.
//
// Library: pe(), pe_count(), allocate(size), meet(), wait() for queued work; and queued: sync,
// barrier, broadcast(to, from, elements) by the first PE, fcollect (elements of one PE), alltoall
// (elements for all PEs), sum.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace stream_bench {

struct sizes {
  std::size_t size_max = std::size_t{256} << 20;
  int rounds = 1000;
};

/// Lines "name_size value unit", of the first PE: microseconds from one call to the next, of many
/// in a row.
template <class Library>
class bench {
 public:
  bench(Library &library, const sizes &what) : library_{library}, what_{what} {}

  void run() {
    to_ =
        static_cast<float *>(library_.allocate(what_.size_max * std::size_t(library_.pe_count())));
    from_ = static_cast<float *>(library_.allocate(what_.size_max));
    measure("sync", 0, [&] { library_.sync(); });
    measure("barrier", 0, [&] { library_.barrier(); });
    for (std::size_t const size : {std::size_t{8},
                                   std::size_t{64},
                                   std::size_t{512},
                                   std::size_t{4} << 10,
                                   std::size_t{32} << 10,
                                   std::size_t{256} << 10,
                                   std::size_t{2} << 20,
                                   std::size_t{16} << 20,
                                   std::size_t{64} << 20,
                                   std::size_t{256} << 20}) {
      if (size > what_.size_max)
        break;
      std::size_t const elements = size / sizeof(float), pieces = std::size_t(library_.pe_count());
      measure("broadcast", size, [&] { library_.broadcast(to_, from_, elements); });
      measure("fcollect", size, [&] { library_.fcollect(to_, from_, elements); });
      if (elements >= pieces)
        measure("alltoall", size, [&] { library_.alltoall(to_, from_, elements); });
      measure("sum_reduce", size, [&] { library_.sum(to_, from_, elements); });
    }
  }

 private:
  template <class Queue>
  void measure(const char *name, std::size_t size, Queue queue) {
    int const rounds = int(
        std::min<std::size_t>(std::size_t(what_.rounds), (std::size_t{2} << 30) / (size + 1) + 4));
    for (int i = 0; i < 5; i++)
      queue();
    library_.wait();
    library_.meet();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; i++)
      queue();
    library_.wait();
    double const us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    if (library_.pe() == 0)
      std::printf("%s_%zu %.3f us\n", name, size, us / rounds);
    std::fflush(stdout);
    library_.meet();
  }

  Library &library_;
  sizes what_;
  float *to_ = nullptr, *from_ = nullptr;
};

// [--size-max BYTES] [--rounds N]
inline sizes read_arguments(int argc, char **argv) {
  sizes chosen;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string_view const name = argv[i];
    if (name == "--size-max")
      chosen.size_max = std::strtoul(argv[i + 1], nullptr, 10);
    else if (name == "--rounds")
      chosen.rounds = std::atoi(argv[i + 1]);
  }
  return chosen;
}

}  // namespace stream_bench
