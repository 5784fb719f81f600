#include <cstdlib>

#include "core/base/log.hpp"
#include "e2e/launch/launch_join.hpp"
#include "products/comex/mpi/mpi_bootstrap.hpp"

using namespace tanada;

// MPI is left when the program ends, which is after it has left the job.
result<std::unique_ptr<seams::bootstrap>> launch_join() {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS)
    return fail(status::io, "MPI_Init");
  std::atexit([] { MPI_Finalize(); });
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto opened = comex::mpi_bootstrap::open(MPI_COMM_WORLD);
  if (!opened.ok())
    return opened.error();
  return std::unique_ptr<seams::bootstrap>{std::move(opened).value()};
}
