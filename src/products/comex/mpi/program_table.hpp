// products/comex/mpi/program_table.hpp: the MPI calls of programs that wait, or that use memory
// afterwards. The C, Fortran and mpi_f08 functions are generated from the same rows. A file that
// includes this defines the row macros before it uses PROGRAM_CALLS:
//
//   SENDS       waits for what STARTED starts; STARTED has the same arguments and a request, and is
//               intercepted, too
//   RECEIVES    the same, with a status at the end that STARTED does not have
//   COLLECTIVE  the same, over all processes of `comm`
//   STARTS      starts a request, its last argument
//   WAITS       waits; memory stays resident if the arguments require it
//   STAYS       waits, and all memory stays resident: the call is rare, may call the program, or
//               creates something that cannot be checked
//   CHANGES     the same of a communicator: memory stays resident if the arguments require it, or
//               if the program has attribute functions
//   GATHERS     CHANGES over all processes of `comm`, which first wait for one another
//   ORIGIN      uses memory until `rank` of `win` is synchronized
//   SYNCS, SYNCS_RANK  synchronize all of `win`, or its `rank`
//   BEGINS, ENDS       halves of a split collective of `file`
//   BY_HAND     is written out for C and for Fortran
//
// with NAME, the Fortran name, and the arguments as (type, name, check). The checks are defined for
// each language: look_nothing, look_memory, look_derived (a datatype), look_derived_at_root (a
// datatype of `root` of `comm` only), look_user_op, look_many (datatypes: memory stays resident),
// look_text (Fortran passes its length at the end).
#pragma once

#define NUMBER(NAME) (int, NAME, nothing)
#define ADDRESS_NUMBER(NAME) (MPI_Aint, NAME, nothing)
#define OFFSET(NAME) (MPI_Offset, NAME, nothing)
#define NUMBERS(NAME) (const int *, NAME, memory)
#define ADDRESS_NUMBERS(NAME) (const MPI_Aint *, NAME, memory)
#define TEXT(NAME) (const char *, NAME, text)
#define FROM(NAME) (const void *, NAME, memory)
#define INTO(NAME) (void *, NAME, memory)
#define TYPE(NAME) (MPI_Datatype, NAME, derived)
#define TYPE_AT_ROOT(NAME) (MPI_Datatype, NAME, derived_at_root)
#define TYPES(NAME) (const MPI_Datatype *, NAME, many)
#define OP(NAME) (MPI_Op, NAME, user_op)
#define INFO(NAME) (MPI_Info, NAME, nothing)
#define GROUP(NAME) (MPI_Group, NAME, nothing)
#define COMM (MPI_Comm, comm, nothing)
#define WIN (MPI_Win, win, nothing)
#define FILE_OF (MPI_File, file, nothing)
#define MAKES(NAME) (MPI_Comm *, NAME, memory)
#define ABOUT (MPI_Status *, about, memory)
#define ABOUTS (MPI_Status *, abouts, memory)
#define REQUEST (MPI_Request *, request, memory)
#define REQUESTS (MPI_Request *, requests, memory)
#define FLAG(NAME) (int *, NAME, memory)

#define SENT FROM(data), NUMBER(count), TYPE(type), NUMBER(to), NUMBER(tag), COMM
#define RECEIVED INTO(data), NUMBER(count), TYPE(type), NUMBER(from), NUMBER(tag), COMM
#define ONE_TO_ALL FROM(data), NUMBER(count), TYPE(type)
#define ALL_INTO INTO(into), NUMBER(most), TYPE(kind)
#define REDUCED FROM(data), INTO(into), NUMBER(count), TYPE(type), OP(op)
#define FILE_FROM FROM(data), NUMBER(count), TYPE(type)
#define FILE_INTO INTO(data), NUMBER(count), TYPE(type)
#define ONE_SIDED_AT NUMBER(rank), ADDRESS_NUMBER(at)
#define ONE_SIDED_FROM FROM(data), NUMBER(count), TYPE(type), ONE_SIDED_AT, NUMBER(most), TYPE(kind)
#define ONE_SIDED_INTO INTO(data), NUMBER(count), TYPE(type), ONE_SIDED_AT, NUMBER(most), TYPE(kind)
#define ONE_SIDED_BOTH                                                                        \
  FROM(data), NUMBER(count), TYPE(type), INTO(into), NUMBER(some), TYPE(their), ONE_SIDED_AT, \
      NUMBER(most), TYPE(kind), OP(op)

#define PROGRAM_CALLS                                                                      \
  PROGRAM_MESSAGES PROGRAM_COLLECTIVES PROGRAM_COMMUNICATORS PROGRAM_WINDOWS PROGRAM_FILES \
      PROGRAM_WAITS

#define PROGRAM_MESSAGES                       \
  SENDS(Send, send, Isend, isend, SENT)        \
  SENDS(Ssend, ssend, Issend, issend, SENT)    \
  SENDS(Rsend, rsend, Irsend, irsend, SENT)    \
  WAITS(Bsend, bsend, SENT)                    \
  STARTS(Ibsend, ibsend, SENT)                 \
  STARTS(Send_init, send_init, SENT)           \
  STARTS(Bsend_init, bsend_init, SENT)         \
  STARTS(Ssend_init, ssend_init, SENT)         \
  STARTS(Rsend_init, rsend_init, SENT)         \
  STARTS(Recv_init, recv_init, RECEIVED)       \
  RECEIVES(Recv, recv, Irecv, irecv, RECEIVED) \
  RECEIVES(Mrecv,                              \
           mrecv,                              \
           Imrecv,                             \
           imrecv,                             \
           INTO(data),                         \
           NUMBER(count),                      \
           TYPE(type),                         \
           (MPI_Message *, message, memory))

#define PROGRAM_COLLECTIVES                                                                    \
  COLLECTIVE(Barrier, barrier, Ibarrier, ibarrier, COMM)                                       \
  COLLECTIVE(                                                                                  \
      Bcast, bcast, Ibcast, ibcast, INTO(data), NUMBER(count), TYPE(type), NUMBER(root), COMM) \
  COLLECTIVE(Reduce, reduce, Ireduce, ireduce, REDUCED, NUMBER(root), COMM)                    \
  COLLECTIVE(Allreduce, allreduce, Iallreduce, iallreduce, REDUCED, COMM)                      \
  COLLECTIVE(Scan, scan, Iscan, iscan, REDUCED, COMM)                                          \
  COLLECTIVE(Exscan, exscan, Iexscan, iexscan, REDUCED, COMM)                                  \
  COLLECTIVE(Reduce_scatter,                                                                   \
             reduce_scatter,                                                                   \
             Ireduce_scatter,                                                                  \
             ireduce_scatter,                                                                  \
             FROM(data),                                                                       \
             INTO(into),                                                                       \
             NUMBERS(counts),                                                                  \
             TYPE(type),                                                                       \
             OP(op),                                                                           \
             COMM)                                                                             \
  COLLECTIVE(Reduce_scatter_block,                                                             \
             reduce_scatter_block,                                                             \
             Ireduce_scatter_block,                                                            \
             ireduce_scatter_block,                                                            \
             REDUCED,                                                                          \
             COMM)                                                                             \
  COLLECTIVE(Gather,                                                                           \
             gather,                                                                           \
             Igather,                                                                          \
             igather,                                                                          \
             ONE_TO_ALL,                                                                       \
             INTO(into),                                                                       \
             NUMBER(most),                                                                     \
             TYPE_AT_ROOT(kind),                                                               \
             NUMBER(root),                                                                     \
             COMM)                                                                             \
  COLLECTIVE(Gatherv,                                                                          \
             gatherv,                                                                          \
             Igatherv,                                                                         \
             igatherv,                                                                         \
             ONE_TO_ALL,                                                                       \
             INTO(into),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE_AT_ROOT(kind),                                                               \
             NUMBER(root),                                                                     \
             COMM)                                                                             \
  COLLECTIVE(Scatter,                                                                          \
             scatter,                                                                          \
             Iscatter,                                                                         \
             iscatter,                                                                         \
             FROM(data),                                                                       \
             NUMBER(count),                                                                    \
             TYPE_AT_ROOT(type),                                                               \
             ALL_INTO,                                                                         \
             NUMBER(root),                                                                     \
             COMM)                                                                             \
  COLLECTIVE(Scatterv,                                                                         \
             scatterv,                                                                         \
             Iscatterv,                                                                        \
             iscatterv,                                                                        \
             FROM(data),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE_AT_ROOT(type),                                                               \
             ALL_INTO,                                                                         \
             NUMBER(root),                                                                     \
             COMM)                                                                             \
  COLLECTIVE(Allgather, allgather, Iallgather, iallgather, ONE_TO_ALL, ALL_INTO, COMM)         \
  COLLECTIVE(Allgatherv,                                                                       \
             allgatherv,                                                                       \
             Iallgatherv,                                                                      \
             iallgatherv,                                                                      \
             ONE_TO_ALL,                                                                       \
             INTO(into),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE(kind),                                                                       \
             COMM)                                                                             \
  COLLECTIVE(Alltoall, alltoall, Ialltoall, ialltoall, ONE_TO_ALL, ALL_INTO, COMM)             \
  COLLECTIVE(Alltoallv,                                                                        \
             alltoallv,                                                                        \
             Ialltoallv,                                                                       \
             ialltoallv,                                                                       \
             FROM(data),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE(type),                                                                       \
             INTO(into),                                                                       \
             NUMBERS(mosts),                                                                   \
             NUMBERS(spots),                                                                   \
             TYPE(kind),                                                                       \
             COMM)                                                                             \
  COLLECTIVE(Alltoallw,                                                                        \
             alltoallw,                                                                        \
             Ialltoallw,                                                                       \
             ialltoallw,                                                                       \
             FROM(data),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPES(types),                                                                     \
             INTO(into),                                                                       \
             NUMBERS(mosts),                                                                   \
             NUMBERS(spots),                                                                   \
             TYPES(kinds),                                                                     \
             COMM)                                                                             \
  COLLECTIVE(Neighbor_allgather,                                                               \
             neighbor_allgather,                                                               \
             Ineighbor_allgather,                                                              \
             ineighbor_allgather,                                                              \
             ONE_TO_ALL,                                                                       \
             ALL_INTO,                                                                         \
             COMM)                                                                             \
  COLLECTIVE(Neighbor_allgatherv,                                                              \
             neighbor_allgatherv,                                                              \
             Ineighbor_allgatherv,                                                             \
             ineighbor_allgatherv,                                                             \
             ONE_TO_ALL,                                                                       \
             INTO(into),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE(kind),                                                                       \
             COMM)                                                                             \
  COLLECTIVE(Neighbor_alltoall,                                                                \
             neighbor_alltoall,                                                                \
             Ineighbor_alltoall,                                                               \
             ineighbor_alltoall,                                                               \
             ONE_TO_ALL,                                                                       \
             ALL_INTO,                                                                         \
             COMM)                                                                             \
  COLLECTIVE(Neighbor_alltoallv,                                                               \
             neighbor_alltoallv,                                                               \
             Ineighbor_alltoallv,                                                              \
             ineighbor_alltoallv,                                                              \
             FROM(data),                                                                       \
             NUMBERS(counts),                                                                  \
             NUMBERS(places),                                                                  \
             TYPE(type),                                                                       \
             INTO(into),                                                                       \
             NUMBERS(mosts),                                                                   \
             NUMBERS(spots),                                                                   \
             TYPE(kind),                                                                       \
             COMM)                                                                             \
  COLLECTIVE(Neighbor_alltoallw,                                                               \
             neighbor_alltoallw,                                                               \
             Ineighbor_alltoallw,                                                              \
             ineighbor_alltoallw,                                                              \
             FROM(data),                                                                       \
             NUMBERS(counts),                                                                  \
             ADDRESS_NUMBERS(places),                                                          \
             TYPES(types),                                                                     \
             INTO(into),                                                                       \
             NUMBERS(mosts),                                                                   \
             ADDRESS_NUMBERS(spots),                                                           \
             TYPES(kinds),                                                                     \
             COMM)

// These may call the program's attribute functions. Global Arrays creates groups when it starts,
// while all ranks have large tables. Memory that stayed resident for a call that all ranks are in
// would be the memory of all ranks at once.
#define PROGRAM_COMMUNICATORS                                                                     \
  GATHERS(Comm_dup, comm_dup, COMM, MAKES(made))                                                  \
  GATHERS(Comm_dup_with_info, comm_dup_with_info, COMM, INFO(info), MAKES(made))                  \
  STARTS(Comm_idup, comm_idup, COMM, MAKES(made))                                                 \
  GATHERS(Comm_split, comm_split, COMM, NUMBER(color), NUMBER(key), MAKES(made))                  \
  GATHERS(                                                                                        \
      Comm_split_type, comm_split_type, COMM, NUMBER(type), NUMBER(key), INFO(info), MAKES(made)) \
  GATHERS(Comm_create, comm_create, COMM, GROUP(group), MAKES(made))                              \
  CHANGES(Comm_create_group, comm_create_group, COMM, GROUP(group), NUMBER(tag), MAKES(made))     \
  CHANGES(Comm_free, comm_free, MAKES(freed))                                                     \
  CHANGES(Comm_disconnect, comm_disconnect, MAKES(freed))                                         \
  STAYS(Comm_accept, comm_accept, TEXT(port), INFO(info), NUMBER(root), COMM, MAKES(made))        \
  STAYS(Comm_connect, comm_connect, TEXT(port), INFO(info), NUMBER(root), COMM, MAKES(made))      \
  STAYS(Comm_join, comm_join, NUMBER(socket), MAKES(made))                                        \
  CHANGES(Intercomm_create,                                                                       \
          intercomm_create,                                                                       \
          COMM,                                                                                   \
          NUMBER(leader),                                                                         \
          (MPI_Comm, peers, nothing),                                                             \
          NUMBER(remote),                                                                         \
          NUMBER(tag),                                                                            \
          MAKES(made))                                                                            \
  CHANGES(Intercomm_merge, intercomm_merge, COMM, NUMBER(high), MAKES(made))                      \
  GATHERS(Cart_create,                                                                            \
          cart_create,                                                                            \
          COMM,                                                                                   \
          NUMBER(count),                                                                          \
          NUMBERS(sizes),                                                                         \
          NUMBERS(periods),                                                                       \
          NUMBER(reorder),                                                                        \
          MAKES(made))                                                                            \
  GATHERS(Cart_sub, cart_sub, COMM, NUMBERS(remain), MAKES(made))                                 \
  GATHERS(Graph_create,                                                                           \
          graph_create,                                                                           \
          COMM,                                                                                   \
          NUMBER(count),                                                                          \
          NUMBERS(index),                                                                         \
          NUMBERS(edges),                                                                         \
          NUMBER(reorder),                                                                        \
          MAKES(made))                                                                            \
  GATHERS(Dist_graph_create,                                                                      \
          dist_graph_create,                                                                      \
          COMM,                                                                                   \
          NUMBER(count),                                                                          \
          NUMBERS(nodes),                                                                         \
          NUMBERS(degrees),                                                                       \
          NUMBERS(targets),                                                                       \
          NUMBERS(weights),                                                                       \
          INFO(info),                                                                             \
          NUMBER(reorder),                                                                        \
          MAKES(made))                                                                            \
  GATHERS(Dist_graph_create_adjacent,                                                             \
          dist_graph_create_adjacent,                                                             \
          COMM,                                                                                   \
          NUMBER(in),                                                                             \
          NUMBERS(sources),                                                                       \
          NUMBERS(in_weights),                                                                    \
          NUMBER(out),                                                                            \
          NUMBERS(targets),                                                                       \
          NUMBERS(out_weights),                                                                   \
          INFO(info),                                                                             \
          NUMBER(reorder),                                                                        \
          MAKES(made))

#define PROGRAM_WINDOWS                                                                          \
  BY_HAND(Win_create,                                                                            \
          win_create,                                                                            \
          INTO(base),                                                                            \
          ADDRESS_NUMBER(size),                                                                  \
          NUMBER(unit),                                                                          \
          INFO(info),                                                                            \
          COMM,                                                                                  \
          (MPI_Win *, made, memory))                                                             \
  GATHERS(Win_create_dynamic, win_create_dynamic, INFO(info), COMM, (MPI_Win *, made, memory))   \
  GATHERS(Win_allocate,                                                                          \
          win_allocate,                                                                          \
          ADDRESS_NUMBER(size),                                                                  \
          NUMBER(unit),                                                                          \
          INFO(info),                                                                            \
          COMM,                                                                                  \
          INTO(base),                                                                            \
          (MPI_Win *, made, memory))                                                             \
  GATHERS(Win_allocate_shared,                                                                   \
          win_allocate_shared,                                                                   \
          ADDRESS_NUMBER(size),                                                                  \
          NUMBER(unit),                                                                          \
          INFO(info),                                                                            \
          COMM,                                                                                  \
          INTO(base),                                                                            \
          (MPI_Win *, made, memory))                                                             \
  BY_HAND(Win_free, win_free, (MPI_Win *, win, memory))                                          \
  BY_HAND(Win_attach, win_attach, WIN, INTO(base), ADDRESS_NUMBER(size))                         \
  BY_HAND(Win_detach, win_detach, WIN, FROM(base))                                               \
  SYNCS(Win_fence, win_fence, NUMBER(check), WIN)                                                \
  SYNCS(Win_complete, win_complete, WIN)                                                         \
  SYNCS(Win_unlock_all, win_unlock_all, WIN)                                                     \
  SYNCS(Win_flush_all, win_flush_all, WIN)                                                       \
  SYNCS(Win_flush_local_all, win_flush_local_all, WIN)                                           \
  SYNCS_RANK(Win_unlock, win_unlock, NUMBER(rank), WIN)                                          \
  SYNCS_RANK(Win_flush, win_flush, NUMBER(rank), WIN)                                            \
  SYNCS_RANK(Win_flush_local, win_flush_local, NUMBER(rank), WIN)                                \
  WAITS(Win_lock, win_lock, NUMBER(kind), NUMBER(rank), NUMBER(check), WIN)                      \
  WAITS(Win_lock_all, win_lock_all, NUMBER(check), WIN)                                          \
  WAITS(Win_post, win_post, GROUP(group), NUMBER(check), WIN)                                    \
  WAITS(Win_start, win_start, GROUP(group), NUMBER(check), WIN)                                  \
  WAITS(Win_wait, win_wait, WIN)                                                                 \
  ORIGIN(Put, put, ONE_SIDED_FROM, WIN)                                                          \
  ORIGIN(Get, get, ONE_SIDED_INTO, WIN)                                                          \
  ORIGIN(Accumulate, accumulate, ONE_SIDED_FROM, OP(op), WIN)                                    \
  ORIGIN(Get_accumulate, get_accumulate, ONE_SIDED_BOTH, WIN)                                    \
  ORIGIN(                                                                                        \
      Fetch_and_op, fetch_and_op, FROM(data), INTO(into), TYPE(type), ONE_SIDED_AT, OP(op), WIN) \
  ORIGIN(Compare_and_swap,                                                                       \
         compare_and_swap,                                                                       \
         FROM(data),                                                                             \
         FROM(expected),                                                                         \
         INTO(into),                                                                             \
         TYPE(type),                                                                             \
         ONE_SIDED_AT,                                                                           \
         WIN)                                                                                    \
  STARTS(Rput, rput, ONE_SIDED_FROM, WIN)                                                        \
  STARTS(Rget, rget, ONE_SIDED_INTO, WIN)                                                        \
  STARTS(Raccumulate, raccumulate, ONE_SIDED_FROM, OP(op), WIN)                                  \
  STARTS(Rget_accumulate, rget_accumulate, ONE_SIDED_BOTH, WIN)

#define PROGRAM_FILES                                                                      \
  GATHERS(File_open,                                                                       \
          file_open,                                                                       \
          COMM,                                                                            \
          TEXT(name),                                                                      \
          NUMBER(mode),                                                                    \
          INFO(info),                                                                      \
          (MPI_File *, made, memory))                                                      \
  STAYS(File_close, file_close, (MPI_File *, file, memory))                                \
  STAYS(File_set_view,                                                                     \
        file_set_view,                                                                     \
        FILE_OF,                                                                           \
        OFFSET(at),                                                                        \
        (MPI_Datatype, element, nothing),                                                  \
        (MPI_Datatype, type, nothing),                                                     \
        TEXT(form),                                                                        \
        INFO(info))                                                                        \
  WAITS(File_set_size, file_set_size, FILE_OF, OFFSET(size))                               \
  WAITS(File_preallocate, file_preallocate, FILE_OF, OFFSET(size))                         \
  WAITS(File_set_atomicity, file_set_atomicity, FILE_OF, NUMBER(flag))                     \
  WAITS(File_sync, file_sync, FILE_OF)                                                     \
  WAITS(File_seek_shared, file_seek_shared, FILE_OF, OFFSET(at), NUMBER(whence))           \
  WAITS(File_read_all, file_read_all, FILE_OF, FILE_INTO, ABOUT)                           \
  WAITS(File_write_all, file_write_all, FILE_OF, FILE_FROM, ABOUT)                         \
  WAITS(File_read_at_all, file_read_at_all, FILE_OF, OFFSET(at), FILE_INTO, ABOUT)         \
  WAITS(File_write_at_all, file_write_at_all, FILE_OF, OFFSET(at), FILE_FROM, ABOUT)       \
  WAITS(File_read_ordered, file_read_ordered, FILE_OF, FILE_INTO, ABOUT)                   \
  WAITS(File_write_ordered, file_write_ordered, FILE_OF, FILE_FROM, ABOUT)                 \
  WAITS(File_read_shared, file_read_shared, FILE_OF, FILE_INTO, ABOUT)                     \
  WAITS(File_write_shared, file_write_shared, FILE_OF, FILE_FROM, ABOUT)                   \
  STARTS(File_iread, file_iread, FILE_OF, FILE_INTO)                                       \
  STARTS(File_iwrite, file_iwrite, FILE_OF, FILE_FROM)                                     \
  STARTS(File_iread_at, file_iread_at, FILE_OF, OFFSET(at), FILE_INTO)                     \
  STARTS(File_iwrite_at, file_iwrite_at, FILE_OF, OFFSET(at), FILE_FROM)                   \
  STARTS(File_iread_shared, file_iread_shared, FILE_OF, FILE_INTO)                         \
  STARTS(File_iwrite_shared, file_iwrite_shared, FILE_OF, FILE_FROM)                       \
  STARTS(File_iread_all, file_iread_all, FILE_OF, FILE_INTO)                               \
  STARTS(File_iwrite_all, file_iwrite_all, FILE_OF, FILE_FROM)                             \
  STARTS(File_iread_at_all, file_iread_at_all, FILE_OF, OFFSET(at), FILE_INTO)             \
  STARTS(File_iwrite_at_all, file_iwrite_at_all, FILE_OF, OFFSET(at), FILE_FROM)           \
  BEGINS(File_read_all_begin, file_read_all_begin, FILE_OF, FILE_INTO)                     \
  BEGINS(File_write_all_begin, file_write_all_begin, FILE_OF, FILE_FROM)                   \
  BEGINS(File_read_at_all_begin, file_read_at_all_begin, FILE_OF, OFFSET(at), FILE_INTO)   \
  BEGINS(File_write_at_all_begin, file_write_at_all_begin, FILE_OF, OFFSET(at), FILE_FROM) \
  BEGINS(File_read_ordered_begin, file_read_ordered_begin, FILE_OF, FILE_INTO)             \
  BEGINS(File_write_ordered_begin, file_write_ordered_begin, FILE_OF, FILE_FROM)           \
  ENDS(File_read_all_end, file_read_all_end, FILE_OF, INTO(data), ABOUT)                   \
  ENDS(File_write_all_end, file_write_all_end, FILE_OF, FROM(data), ABOUT)                 \
  ENDS(File_read_at_all_end, file_read_at_all_end, FILE_OF, INTO(data), ABOUT)             \
  ENDS(File_write_at_all_end, file_write_at_all_end, FILE_OF, FROM(data), ABOUT)           \
  ENDS(File_read_ordered_end, file_read_ordered_end, FILE_OF, INTO(data), ABOUT)           \
  ENDS(File_write_ordered_end, file_write_ordered_end, FILE_OF, FROM(data), ABOUT)

#define PROGRAM_WAITS                                                                           \
  BY_HAND(Wait, wait, REQUEST, ABOUT)                                                           \
  BY_HAND(Waitall, waitall, NUMBER(count), REQUESTS, ABOUTS)                                    \
  BY_HAND(Waitany, waitany, NUMBER(count), REQUESTS, FLAG(index), ABOUT)                        \
  BY_HAND(Waitsome, waitsome, NUMBER(count), REQUESTS, FLAG(done), FLAG(indices), ABOUTS)       \
  BY_HAND(Test, test, REQUEST, FLAG(is_done), ABOUT)                                            \
  BY_HAND(Testall, testall, NUMBER(count), REQUESTS, FLAG(is_done), ABOUTS)                     \
  BY_HAND(Testany, testany, NUMBER(count), REQUESTS, FLAG(index), FLAG(is_done), ABOUT)         \
  BY_HAND(Testsome, testsome, NUMBER(count), REQUESTS, FLAG(done), FLAG(indices), ABOUTS)       \
  BY_HAND(Request_get_status,                                                                   \
          request_get_status,                                                                   \
          (MPI_Request, request, nothing),                                                      \
          FLAG(is_done),                                                                        \
          ABOUT)                                                                                \
  BY_HAND(Request_free, request_free, REQUEST)                                                  \
  BY_HAND(Probe, probe, NUMBER(from), NUMBER(tag), COMM, ABOUT)                                 \
  BY_HAND(Iprobe, iprobe, NUMBER(from), NUMBER(tag), COMM, FLAG(is_there), ABOUT)               \
  BY_HAND(                                                                                      \
      Mprobe, mprobe, NUMBER(from), NUMBER(tag), COMM, (MPI_Message *, message, memory), ABOUT) \
  BY_HAND(Improbe,                                                                              \
          improbe,                                                                              \
          NUMBER(from),                                                                         \
          NUMBER(tag),                                                                          \
          COMM,                                                                                 \
          FLAG(is_there),                                                                       \
          (MPI_Message *, message, memory),                                                     \
          ABOUT)                                                                                \
  BY_HAND(Sendrecv,                                                                             \
          sendrecv,                                                                             \
          FROM(data),                                                                           \
          NUMBER(count),                                                                        \
          TYPE(type),                                                                           \
          NUMBER(to),                                                                           \
          NUMBER(tag),                                                                          \
          INTO(into),                                                                           \
          NUMBER(most),                                                                         \
          TYPE(kind),                                                                           \
          NUMBER(from),                                                                         \
          NUMBER(mark),                                                                         \
          COMM,                                                                                 \
          ABOUT)                                                                                \
  BY_HAND(Sendrecv_replace,                                                                     \
          sendrecv_replace,                                                                     \
          INTO(data),                                                                           \
          NUMBER(count),                                                                        \
          TYPE(type),                                                                           \
          NUMBER(to),                                                                           \
          NUMBER(tag),                                                                          \
          NUMBER(from),                                                                         \
          NUMBER(mark),                                                                         \
          COMM,                                                                                 \
          ABOUT)                                                                                \
  BY_HAND(Buffer_attach, buffer_attach, INTO(data), NUMBER(size))                               \
  BY_HAND(Buffer_detach, buffer_detach, INTO(data), FLAG(size))

// Expand rows to parameters, arguments and checks. EACH separates elements by commas, EACH_BESIDE
// does not.
#define PARENTHESES_ ()
#define EXPAND_(...) EXPAND_4_(EXPAND_4_(EXPAND_4_(__VA_ARGS__)))
#define EXPAND_4_(...) EXPAND_3_(EXPAND_3_(EXPAND_3_(__VA_ARGS__)))
#define EXPAND_3_(...) EXPAND_2_(EXPAND_2_(__VA_ARGS__))
#define EXPAND_2_(...) __VA_ARGS__
#define EACH(WHAT, ...) EXPAND_(EACH_STEP_(WHAT, __VA_ARGS__))
#define EACH_STEP_(WHAT, FIRST, ...) \
  WHAT FIRST __VA_OPT__(, EACH_AGAIN_ PARENTHESES_(WHAT, __VA_ARGS__))
#define EACH_AGAIN_() EACH_STEP_
#define EACH_BESIDE(WHAT, ...) EXPAND_(EACH_BESIDE_STEP_(WHAT, __VA_ARGS__))
#define EACH_BESIDE_STEP_(WHAT, FIRST, ...) \
  WHAT FIRST __VA_OPT__(EACH_BESIDE_AGAIN_ PARENTHESES_(WHAT, __VA_ARGS__))
#define EACH_BESIDE_AGAIN_() EACH_BESIDE_STEP_
#define ARGUMENT_(TYPE_, NAME_, LOOK_) NAME_
#define ARGUMENTS(...) EACH(ARGUMENT_, __VA_ARGS__)
