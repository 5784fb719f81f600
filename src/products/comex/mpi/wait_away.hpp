// products/comex/mpi/wait_away.hpp: waiting in MPI for a process of comex, whose memory may leave
// meanwhile.
#pragma once

#include <mpi.h>

#include <functional>

#include "products/comex/engine.hpp"

namespace tanada::comex {

// `code` is what MPI says. `self`: does meanwhile what it owes others, who may have its memory,
// too; null: there is none yet. What swapping::enter() says.
status wait_for(MPI_Request &request, MPI_Status *about, int &code, engine *self);

// The same until is_over() says so, which looks at MPI; for a process whose memory leaves.
status wait_away(const std::function<bool()> &is_over, engine &self, swapping &away);

}  // namespace tanada::comex
