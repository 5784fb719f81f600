// products/comex/mpi/pacing.hpp: waiting for what an MPI does, which tells nobody when it is done.
#pragma once

#include <mpi.h>

#include "onesided/job/job.hpp"

namespace tanada::comex {

// `code` is what MPI says. `job`: attended meanwhile; null: there is none yet. timed_out at the
// deadline: the request is still under way.
status wait_paced(MPI_Request &request, MPI_Status *about, int &code, const pgas::job *job,
                  uint64_t deadline_ns = TND_NO_DEADLINE);

}  // namespace tanada::comex
