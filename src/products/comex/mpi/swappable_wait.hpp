// products/comex/mpi/swappable_wait.hpp: waits in MPI for another process, during which this
// process's memory may be swapped out.
#pragma once

#include <mpi.h>

#include <functional>

#include "products/comex/engine.hpp"

namespace tanada::comex {

// `code` is MPI's result. Makes progress of `self` meanwhile, since others may wait for this
// process or its memory; null: there is no engine yet. Returns the status of `end_wait`.
status wait_for_request(MPI_Request &request, MPI_Status *about, int &code, engine *self);

// The same for a process with swapping, until is_over(), which polls MPI, returns true.
status wait_swappable(const std::function<bool()> &is_over, engine &self, process_swapper &swapper);

}  // namespace tanada::comex
