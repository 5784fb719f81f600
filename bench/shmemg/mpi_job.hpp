// bench/shmemg/mpi_job.hpp: replaces examples/common/pes.hpp with MPI, for the rivals of examples.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "../../examples/common/device_memory.hpp"

namespace mpi_job {

/// Runs program(me, count), which returns an exit code or throws, on the device of this rank. Ends
/// the job if it throws.
template <class Program>
int run_rank(const char *name, int &count, char **&words, Program program) {
  MPI_Init(&count, &words);
  int me = 0, ranks = 1, devices = 0, code = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    examples::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    examples::cuda_check(cudaSetDevice(me % devices), "cudaSetDevice");
    code = program(me, ranks);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}

/// Seconds that all ranks take for `steps` steps, in the fastest of the rounds.
template <class Simulation>
double fastest_round(Simulation &part, unsigned steps, unsigned round_count) {
  double fastest = 1e300;
  for (unsigned round = 0; round < round_count; round++) {
    MPI_Barrier(MPI_COMM_WORLD);
    auto const start = std::chrono::steady_clock::now();
    part.run(steps);
    MPI_Barrier(MPI_COMM_WORLD);
    fastest = std::min(
        fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

}  // namespace mpi_job
