// stencil2d: a nine-point stencil on a grid that PEs share, a GPU each. What neighbours need of one another goes straight between
// the memories of their GPUs: put by the host, by a stream between kernels, or by the kernels themselves.
#include <chrono>
#include <cstdio>
#include <exception>

#include "check.hpp"
#include "simulation.hpp"

namespace stencil2d {
namespace {

double seconds_of(simulation &part, u32 steps) {
  shmem_barrier_all();
  auto const start = std::chrono::steady_clock::now();
  part.run(steps);
  shmem_barrier_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int simulate(const options &wanted, int me, int count) {
  places const all(count);
  simulation part(wanted, all, me);
  part.begin();
  double fastest = 1e300;
  for (unsigned round = 0; round < wanted.rounds; round++) fastest = std::min(fastest, seconds_of(part, wanted.steps));
  int failed = 0;
  if (wanted.check) {
    double const difference =
        largest_difference(all, part.shape(), part.with(), wanted.steps * wanted.rounds, me, part.cells());
    failed = difference < 1e-12 ? 0 : 1;
    if (failed != 0) std::fprintf(stderr, "stencil2d: PE %d: off by %.3g of the whole grid's values\n", me, difference);
  }
  if (me == 0) {
    double const cells = double(wanted.rows) * wanted.columns * count;
    std::printf("{\"program\": \"stencil2d\", \"exchange\": \"%s\", \"pes\": %d, \"across\": %d, \"rows\": %u, \"columns\": %u, "
                "\"step_us\": %.3f, \"cells_per_s\": %.4g}\n",
                wanted.exchange.c_str(), count, all.across, wanted.rows, wanted.columns, fastest / wanted.steps * 1e6,
                cells * wanted.steps / fastest);
  }
  return failed;
}

}  // namespace
}  // namespace stencil2d

int main(int count, char **words) {
  stencil2d::options wanted;
  int exit_code = 0;
  if (!stencil2d::parse_options(count, words, wanted, exit_code)) return exit_code;
  int const needed = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;
  int provided = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | needed, &provided) != 0 || (provided & needed) != needed) {
    std::fprintf(stderr, "stencil2d: this needs OpenSHMEM with memory of devices\n");
    return 1;
  }
  int code = 1;
  try {
    code = stencil2d::simulate(wanted, shmem_my_pe(), shmem_n_pes());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "stencil2d: %s\n", error.what());
    shmem_global_exit(1);
  }
  shmem_finalize();
  return code;
}
