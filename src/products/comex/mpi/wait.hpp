// products/comex/mpi/wait.hpp: waiting for MPI that lets others run, and who shares memory. For
// libarmci.
#pragma once

#include <mpi.h>

#include <cstddef>

// MPI_Wait for ranks that outnumber processors: it looks, lets others run, then sleeps for longer
// and longer; does meanwhile what this process owes others. Before comex_init, too. Returns what
// MPI says.
extern "C" [[gnu::visibility("default")]] int tnd_comex_wait(MPI_Request *request,
                                                             MPI_Status *status);

// Around MPI's own calls that wait, where no request tells when they are over. They nest.
extern "C" [[gnu::visibility("default")]] void tnd_comex_leave(void);
extern "C" [[gnu::visibility("default")]] void tnd_comex_enter(void);

// Where MPI reads or writes `size` bytes of the program's that may leave memory while this process
// waits: a copy that stays, or, of what is large, one in a file; where that cannot be, `buffer`
// itself, and all of this process's memory stays. end: with what begin has returned.
extern "C" [[gnu::visibility("default")]] void *tnd_comex_buffer_begin(void *buffer, size_t size,
                                                                       int is_read);
extern "C" [[gnu::visibility("default")]] void tnd_comex_buffer_end(void *buffer, void *used,
                                                                    size_t size, int is_written);

// What a process of the job gives all others in collective calls: see engine::collective_memory().
// Null: there is none. Between comex_init and comex_finalize alone.
extern "C" [[gnu::visibility("default")]] void *tnd_comex_collective_memory(int process,
                                                                            size_t *size);

// Into collective memory, for another process to read at once.
extern "C" [[gnu::visibility("default")]] void tnd_comex_collective_copy(void *target,
                                                                         const void *source,
                                                                         size_t size);

// Process `root`'s bytes to all processes, where there is collective memory; see
// engine::broadcast(). Null; else why not, until the next call.
extern "C" [[gnu::visibility("default")]] const char *tnd_comex_broadcast(void *bytes, size_t size,
                                                                          int root);

// The lowest process of the job of those who share memory with this one, itself among them: they
// are a node. Between comex_init and comex_finalize alone.
extern "C" [[gnu::visibility("default")]] int tnd_comex_node_master(void);
