// comex/mpi/wait.hpp: waiting for MPI that lets others run. For libarmci.
#pragma once

#include <mpi.h>

// MPI_Wait for ranks that outnumber processors: it looks, lets others run, then sleeps for longer and longer; does meanwhile what this
// process owes others. Before comex_init, too. Returns what MPI says.
extern "C" [[gnu::visibility("default")]] int tnd_comex_wait(MPI_Request *request, MPI_Status *status);
