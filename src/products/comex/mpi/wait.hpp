// products/comex/mpi/wait.hpp: interface for libarmci: waits in MPI that let other processes run,
// shared memory and nodes.
#pragma once

#include <mpi.h>

#include <cstddef>

// MPI_Wait for oversubscribed ranks: it polls, yields, then sleeps for longer and longer. It also
// makes progress for other processes. May be called before comex_init. Returns MPI's code.
extern "C" [[gnu::visibility("default")]] int tnd_comex_wait(MPI_Request *request,
                                                             MPI_Status *status);

// Around MPI calls that wait internally, without a request to poll. They nest.
extern "C" [[gnu::visibility("default")]] void tnd_comex_leave(void);
extern "C" [[gnu::visibility("default")]] void tnd_comex_enter(void);

// The memory that MPI must use for `size` bytes of the program's memory, which may be swapped out
// during a wait. It is a resident copy or, of large buffers, one in a file. If neither is possible
// it is `buffer` itself, and all of this process's memory stays resident. Pass the result to
// tnd_comex_buffer_end().
extern "C" [[gnu::visibility("default")]] void *tnd_comex_buffer_begin(void *buffer,
                                                                       size_t size,
                                                                       int is_read);
extern "C" [[gnu::visibility("default")]] void tnd_comex_buffer_end(void *buffer,
                                                                    void *used,
                                                                    size_t size,
                                                                    int is_written);

// Collective memory of a process of the job: see engine::collective_memory(). Null: there is no
// such memory. Only between comex_init and comex_finalize.
extern "C" [[gnu::visibility("default")]] void *tnd_comex_collective_memory(int process,
                                                                            size_t *size);

// Copies into collective memory that another process reads at once.
extern "C" [[gnu::visibility("default")]] void tnd_comex_collective_copy(void *target,
                                                                         const void *source,
                                                                         size_t size);

// Broadcasts process `root`'s bytes where there is collective memory; see engine::broadcast().
// Returns null, or an error text that is valid until the next call.
extern "C" [[gnu::visibility("default")]] const char *tnd_comex_broadcast(void *bytes,
                                                                          size_t size,
                                                                          int root);

// The lowest process of the job that shares memory with this one, which may be itself; these
// processes are a node. Only between comex_init and comex_finalize.
extern "C" [[gnu::visibility("default")]] int tnd_comex_node_master(void);
