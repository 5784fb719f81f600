// comex/mpi/pacing.hpp: waiting for what an MPI does, which tells nobody when it is done.
#pragma once

#include <mpi.h>

#include "comex/engine.hpp"

namespace tanada::comex {

// `code` is what MPI says. `self`: does meanwhile what it owes others, who may have its memory, too; null: there is none yet. timed_out at
// the deadline: the request is still under way. What swapping::enter() says.
status wait_for(MPI_Request &request, MPI_Status *about, int &code, engine *self, uint64_t deadline_ns = TND_NO_DEADLINE);

// The same until is_over() says so, which looks at MPI; for a process whose memory leaves.
status wait_away(const std::function<bool()> &is_over, engine &self, swapping &away);

}  // namespace tanada::comex
