// Fortran's names of MPI's calls that wait, as program_calls.cc has C's: MPI's own Fortran library does not call those. By the names that
// compilers give on Linux, and pmpi_*_ behind them; only programs that have MPI's Fortran library call any.
#include "comex/mpi/outside.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] void

// All arguments are addresses. A call and the one behind it, which waits; the rest names buffers.
#define WAITS(NAME, PARAMETERS, ARGUMENTS, ...)                    \
  extern "C" [[gnu::weak]] void pmpi_##NAME##_ PARAMETERS;         \
  EXPORTED mpi_##NAME##_ PARAMETERS {                              \
    outside_wait const waiting{{__VA_ARGS__}};                     \
    pmpi_##NAME##_ ARGUMENTS;                                      \
  }

// Starts the request at R.
#define STARTS(NAME, PARAMETERS, ARGUMENTS, R, ...)                              \
  extern "C" [[gnu::weak]] void pmpi_##NAME##_ PARAMETERS;                       \
  EXPORTED mpi_##NAME##_ PARAMETERS {                                            \
    pmpi_##NAME##_ ARGUMENTS;                                                    \
    if (current_swapping() != nullptr) request_started(MPI_Request_f2c(*R), {__VA_ARGS__}); \
  }

using word = MPI_Fint *;

extern "C" [[gnu::weak]] void pmpi_init_(word);
EXPORTED mpi_init_(word code) { pmpi_init_(code); }
extern "C" [[gnu::weak]] void pmpi_init_thread_(word, word, word);
EXPORTED mpi_init_thread_(word wanted, word provided, word code) { pmpi_init_thread_(wanted, provided, code); }
WAITS(finalize, (word a), (a))
WAITS(barrier, (word a, word b), (a, b))
WAITS(comm_dup, (word a, word b, word c), (a, b, c))
WAITS(comm_split, (word a, word b, word c, word d, word e), (a, b, c, d, e))
WAITS(comm_create, (word a, word b, word c, word d), (a, b, c, d))
WAITS(comm_free, (word a, word b), (a, b))
WAITS(send, (void *data, word b, word c, word d, word e, word f, word g), (data, b, c, d, e, f, g), data)
WAITS(ssend, (void *data, word b, word c, word d, word e, word f, word g), (data, b, c, d, e, f, g), data)
WAITS(recv, (void *data, word b, word c, word d, word e, word f, word g, word h), (data, b, c, d, e, f, g, h), data)
WAITS(sendrecv,
      (void *data, word b, word c, word d, word e, void *into, word g, word h, word i, word j, word k, word l, word m),
      (data, b, c, d, e, into, g, h, i, j, k, l, m), data, into)
WAITS(probe, (word a, word b, word c, word d, word e), (a, b, c, d, e))
STARTS(isend, (void *data, word b, word c, word d, word e, word f, word request, word h), (data, b, c, d, e, f, request, h), request, data)
STARTS(irecv, (void *data, word b, word c, word d, word e, word f, word request, word h), (data, b, c, d, e, f, request, h), request, data)
WAITS(bcast, (void *data, word b, word c, word d, word e, word f), (data, b, c, d, e, f), data)
WAITS(reduce, (void *data, void *into, word c, word d, word e, word f, word g, word h), (data, into, c, d, e, f, g, h), data, into)
WAITS(allreduce, (void *data, void *into, word c, word d, word e, word f, word g), (data, into, c, d, e, f, g), data, into)
WAITS(gather, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i), (data, b, c, into, e, f, g, h, i), data, into)
WAITS(gatherv, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i, word j),
      (data, b, c, into, e, f, g, h, i, j), data, into)
WAITS(scatter, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i), (data, b, c, into, e, f, g, h, i), data, into)
WAITS(scatterv, (void *data, word b, word c, word d, void *into, word f, word g, word h, word i, word j),
      (data, b, c, d, into, f, g, h, i, j), data, into)
WAITS(allgather, (void *data, word b, word c, void *into, word e, word f, word g, word h), (data, b, c, into, e, f, g, h), data, into)
WAITS(allgatherv, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i),
      (data, b, c, into, e, f, g, h, i), data, into)
WAITS(alltoall, (void *data, word b, word c, void *into, word e, word f, word g, word h), (data, b, c, into, e, f, g, h), data, into)
WAITS(alltoallv, (void *data, word b, word c, word d, void *into, word f, word g, word h, word i, word j),
      (data, b, c, d, into, f, g, h, i, j), data, into)

extern "C" [[gnu::weak]] void pmpi_wait_(word, word, word);
EXPORTED mpi_wait_(word request, word about, word code) {
  MPI_Request const before = current_swapping() == nullptr ? MPI_REQUEST_NULL : MPI_Request_f2c(*request);
  {
    outside_wait const waiting{{request, about}};
    pmpi_wait_(request, about, code);
  }
  request_ended(before);
}

extern "C" [[gnu::weak]] void pmpi_waitall_(word, word, word, word);
EXPORTED mpi_waitall_(word count, word requests, word abouts, word code) {
  std::vector<MPI_Request> before;
  for (MPI_Fint i = 0; current_swapping() != nullptr && i < *count; i++) before.push_back(MPI_Request_f2c(requests[i]));
  {
    outside_wait const waiting{{requests, abouts}};
    pmpi_waitall_(count, requests, abouts, code);
  }
  for (auto const each : before) request_ended(each);
}

extern "C" [[gnu::weak]] void pmpi_test_(word, word, word, word);
EXPORTED mpi_test_(word request, word is_done, word about, word code) {
  MPI_Request const before = current_swapping() == nullptr ? MPI_REQUEST_NULL : MPI_Request_f2c(*request);
  pmpi_test_(request, is_done, about, code);
  if (*is_done != 0) request_ended(before);
  make_way();
}
