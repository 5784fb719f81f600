// examples/common/pes.hpp: starts and finishes programs of PEs with device memory.
#pragma once

#include <shmem.h>
#include <shmemg.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "device_memory.hpp"

namespace examples {

/// Starts the PEs, prints PE 0's device, runs `program(this PE, count of PEs)`, and finishes. The
/// program returns the exit status. An exception ends the job with a line that contains it.
template <class Program>
int run_pe(const char *name, Program program) {
  int const needed = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;
  int provided = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | needed, &provided) != 0 ||
      (provided & needed) != needed) {
    std::fprintf(stderr, "%s: this needs OpenSHMEM with memory of devices\n", name);
    return 1;
  }
  int code = 1;
  try {
    if (shmem_my_pe() == 0)
      print_device();
    code = program(shmem_my_pe(), shmem_n_pes());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    shmem_global_exit(1);
  }
  shmem_finalize();
  return code;
}

/// The seconds that all PEs take for `steps` steps, in the fastest round.
template <class Simulation>
double fastest_round(Simulation &part, unsigned steps, unsigned round_count) {
  double fastest = 1e300;
  for (unsigned round = 0; round < round_count; round++) {
    shmem_barrier_all();
    auto const start = std::chrono::steady_clock::now();
    part.run(steps);
    shmem_barrier_all();
    fastest = std::min(
        fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

}  // namespace examples
