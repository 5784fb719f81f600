// comex/mpi/wait.hpp: waiting for MPI that lets others run, and who shares memory. For libarmci.
#pragma once

#include <mpi.h>

// MPI_Wait for ranks that outnumber processors: it looks, lets others run, then sleeps for longer and longer; does meanwhile what this
// process owes others. Before comex_init, too. Returns what MPI says.
extern "C" [[gnu::visibility("default")]] int tnd_comex_wait(MPI_Request *request, MPI_Status *status);

// The lowest process of the job of those who share memory with this one, itself among them: they are a node. Between comex_init and
// comex_finalize alone.
extern "C" [[gnu::visibility("default")]] int tnd_comex_node_master(void);
