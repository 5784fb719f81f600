// MPI's calls that wait for other processes, as programs call them beside ours: what they wait for may need the memory, or the
// processor, that this process has. By the profiling interface (MPI 3.1, section 14.2): each hands on to its PMPI name.
//
// Fortran's names are in program_fortran.cc: they do not come by these.
//
// Without TND_COMEX_MEMORY a call costs two loads.
#include "comex/mpi/outside.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] int

// Waits; the rest names buffers.
#define WAITS(NAME, PARAMETERS, ARGUMENTS, ...)  \
  EXPORTED MPI_##NAME PARAMETERS {               \
    outside_wait const waiting{{__VA_ARGS__}};   \
    return PMPI_##NAME ARGUMENTS;                \
  }

// The same of a collective of `comm`.
#define GATHERS(NAME, PARAMETERS, ARGUMENTS, ...)      \
  EXPORTED MPI_##NAME PARAMETERS {                     \
    outside_wait const waiting{{__VA_ARGS__}};         \
    waiting.assemble(comm);                            \
    return PMPI_##NAME ARGUMENTS;                      \
  }

// Waits for what STARTED starts, which has the same arguments and a request.
#define IS_STARTED(NAME, STARTED, PARAMETERS, ARGUMENTS, ABOUT, ...)                                       \
  EXPORTED MPI_##NAME PARAMETERS {                                                                         \
    if (!is_paced()) return PMPI_##NAME ARGUMENTS;                                                         \
    return start_and_wait([&](MPI_Request *request) { return PMPI_##STARTED; }, ABOUT, {__VA_ARGS__});     \
  }

// Starts `request`, and does not wait.
#define STARTS(NAME, PARAMETERS, ARGUMENTS, ...)                            \
  EXPORTED MPI_##NAME PARAMETERS {                                          \
    int const code = PMPI_##NAME ARGUMENTS;                                 \
    if (code == MPI_SUCCESS) request_started(*request, {__VA_ARGS__});      \
    return code;                                                            \
  }

// Gives memory away for longer than a call.
#define GIVES(NAME, PARAMETERS, ARGUMENTS, MEMORY) \
  EXPORTED MPI_##NAME PARAMETERS {                 \
    memory_given(MEMORY);                          \
    outside_wait const waiting;                    \
    return PMPI_##NAME ARGUMENTS;                  \
  }

// Each program has these, so that a linker that leaves out what is not needed leaves this library in, and before MPI's.
EXPORTED MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }
EXPORTED MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided) { return PMPI_Init_thread(argc, argv, wanted, provided); }

// Communicators.
IS_STARTED(Barrier, Ibarrier(comm, request), (MPI_Comm comm), (comm), MPI_STATUS_IGNORE)
GATHERS(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
GATHERS(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
GATHERS(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
GATHERS(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
GATHERS(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
WAITS(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
WAITS(Comm_free, (MPI_Comm *comm), (comm))
WAITS(Comm_disconnect, (MPI_Comm *comm), (comm))
WAITS(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peers, int remote, int tag, MPI_Comm *made), (comm, leader, peers, remote, tag, made))
GATHERS(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
GATHERS(Cart_create, (MPI_Comm comm, int count, const int sizes[], const int periods[], int reorder, MPI_Comm *made),
      (comm, count, sizes, periods, reorder, made))
GATHERS(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))

// Messages.
#define SENT const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm
#define SENT_ARGUMENTS data, count, type, to, tag, comm
IS_STARTED(Send, Isend(SENT_ARGUMENTS, request), (SENT), (SENT_ARGUMENTS), MPI_STATUS_IGNORE, data)
IS_STARTED(Ssend, Issend(SENT_ARGUMENTS, request), (SENT), (SENT_ARGUMENTS), MPI_STATUS_IGNORE, data)
IS_STARTED(Rsend, Irsend(SENT_ARGUMENTS, request), (SENT), (SENT_ARGUMENTS), MPI_STATUS_IGNORE, data)
WAITS(Bsend, (SENT), (SENT_ARGUMENTS), data)
STARTS(Isend, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
STARTS(Issend, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
STARTS(Irsend, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
STARTS(Ibsend, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
GIVES(Send_init, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
GIVES(Ssend_init, (SENT, MPI_Request *request), (SENT_ARGUMENTS, request), data)
GIVES(Recv_init, (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
      (data, count, type, from, tag, comm, request), data)
IS_STARTED(Recv, Irecv(data, count, type, from, tag, comm, request),
           (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *about),
           (data, count, type, from, tag, comm, about), about, data, about)
STARTS(Irecv, (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
       (data, count, type, from, tag, comm, request), data)
IS_STARTED(Mrecv, Imrecv(data, count, type, message, request),
           (void *data, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *about), (data, count, type, message, about), about, data,
           about)
STARTS(Imrecv, (void *data, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
       (data, count, type, message, request), data)
GIVES(Buffer_attach, (void *data, int size), (data, size), data)

// Collectives, each with one that is started.
#define COLLECTIVE(NAME, STARTED, PARAMETERS, ARGUMENTS, ...)                                \
  GATHERS(NAME, (COLLECTIVE_LIST_ PARAMETERS), (COLLECTIVE_LIST_ ARGUMENTS), __VA_ARGS__)    \
  STARTS(STARTED, (COLLECTIVE_LIST_ PARAMETERS, MPI_Request *request), (COLLECTIVE_LIST_ ARGUMENTS, request), __VA_ARGS__)
#define COLLECTIVE_LIST_(...) __VA_ARGS__

COLLECTIVE(Bcast, Ibcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm), (data, count, type, root, comm), data)
COLLECTIVE(Reduce, Ireduce, (const void *data, void *into, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
           (data, into, count, type, op, root, comm), data, into)
COLLECTIVE(Allreduce, Iallreduce, (const void *data, void *into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, into, count, type, op, comm), data, into)
COLLECTIVE(Scan, Iscan, (const void *data, void *into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, into, count, type, op, comm), data, into)
COLLECTIVE(Exscan, Iexscan, (const void *data, void *into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, into, count, type, op, comm), data, into)
COLLECTIVE(Reduce_scatter, Ireduce_scatter,
           (const void *data, void *into, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, into, counts, type, op, comm), data, into)
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block,
           (const void *data, void *into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, into, count, type, op, comm), data, into)
COLLECTIVE(Gather, Igather,
           (const void *data, int count, MPI_Datatype type, void *into, int most, MPI_Datatype kind, int root, MPI_Comm comm),
           (data, count, type, into, most, kind, root, comm), data, into)
COLLECTIVE(Gatherv, Igatherv,
           (const void *data, int count, MPI_Datatype type, void *into, const int counts[], const int places[], MPI_Datatype kind, int root,
            MPI_Comm comm),
           (data, count, type, into, counts, places, kind, root, comm), data, into)
COLLECTIVE(Scatter, Iscatter,
           (const void *data, int count, MPI_Datatype type, void *into, int most, MPI_Datatype kind, int root, MPI_Comm comm),
           (data, count, type, into, most, kind, root, comm), data, into)
COLLECTIVE(Scatterv, Iscatterv,
           (const void *data, const int counts[], const int places[], MPI_Datatype type, void *into, int most, MPI_Datatype kind, int root,
            MPI_Comm comm),
           (data, counts, places, type, into, most, kind, root, comm), data, into)
COLLECTIVE(Allgather, Iallgather, (const void *data, int count, MPI_Datatype type, void *into, int most, MPI_Datatype kind, MPI_Comm comm),
           (data, count, type, into, most, kind, comm), data, into)
COLLECTIVE(Allgatherv, Iallgatherv,
           (const void *data, int count, MPI_Datatype type, void *into, const int counts[], const int places[], MPI_Datatype kind, MPI_Comm comm),
           (data, count, type, into, counts, places, kind, comm), data, into)
COLLECTIVE(Alltoall, Ialltoall, (const void *data, int count, MPI_Datatype type, void *into, int most, MPI_Datatype kind, MPI_Comm comm),
           (data, count, type, into, most, kind, comm), data, into)
COLLECTIVE(Alltoallv, Ialltoallv,
           (const void *data, const int counts[], const int places[], MPI_Datatype type, void *into, const int mosts[], const int spots[],
            MPI_Datatype kind, MPI_Comm comm),
           (data, counts, places, type, into, mosts, spots, kind, comm), data, into)

// One-sided memory, and files that all open.
GIVES(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *made), (base, size, unit, info, comm, made), base)
WAITS(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *made), (size, unit, info, comm, base, made))
WAITS(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *made), (size, unit, info, comm, base, made))
WAITS(Win_free, (MPI_Win *win), (win))
WAITS(Win_fence, (int check, MPI_Win win), (check, win))
WAITS(Win_lock, (int kind, int rank, int check, MPI_Win win), (kind, rank, check, win))
WAITS(Win_unlock, (int rank, MPI_Win win), (rank, win))
WAITS(Win_wait, (MPI_Win win), (win))
WAITS(Win_complete, (MPI_Win win), (win))
WAITS(Win_flush, (int rank, MPI_Win win), (rank, win))
WAITS(Win_flush_all, (MPI_Win win), (win))
WAITS(File_open, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *made), (comm, name, mode, info, made))
WAITS(File_close, (MPI_File *file), (file))
