// products/comex/mpi/backoff_wait.hpp: waits for MPI requests, for which MPI provides no wakeup.
#pragma once

#include <mpi.h>

#include "onesided/job/job.hpp"

namespace tanada::comex {

// `code` is MPI's result. Makes progress of `job` meanwhile; null: there is no job yet. timed_out:
// the deadline has passed, and the request is still in flight.
status wait_with_backoff(MPI_Request &request,
                         MPI_Status *about,
                         int &code,
                         const onesided::job *job,
                         uint64_t deadline_ns = TND_NO_DEADLINE);

}  // namespace tanada::comex
