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

// The same of a collective of the communicator at COMM.
#define GATHERS(NAME, PARAMETERS, ARGUMENTS, COMM, ...)                       \
  extern "C" [[gnu::weak]] void pmpi_##NAME##_ PARAMETERS;                    \
  EXPORTED mpi_##NAME##_ PARAMETERS {                                         \
    outside_wait const waiting{{__VA_ARGS__}};                                \
    if (current_swapping() != nullptr) waiting.assemble(MPI_Comm_f2c(*COMM)); \
    pmpi_##NAME##_ ARGUMENTS;                                                 \
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
GATHERS(barrier, (word a, word b), (a, b), a)
GATHERS(comm_dup, (word a, word b, word c), (a, b, c), a)
GATHERS(comm_split, (word a, word b, word c, word d, word e), (a, b, c, d, e), a)
GATHERS(comm_create, (word a, word b, word c, word d), (a, b, c, d), a)
WAITS(comm_free, (word a, word b), (a, b))
STARTS(isend, (void *data, word b, word c, word d, word e, word f, word request, word h), (data, b, c, d, e, f, request, h), request, data)
STARTS(irecv, (void *data, word b, word c, word d, word e, word f, word request, word h), (data, b, c, d, e, f, request, h), request, data)
GATHERS(bcast, (void *data, word b, word c, word d, word e, word f), (data, b, c, d, e, f), e, data)
GATHERS(reduce, (void *data, void *into, word c, word d, word e, word f, word g, word h), (data, into, c, d, e, f, g, h), g, data, into)
GATHERS(allreduce, (void *data, void *into, word c, word d, word e, word f, word g), (data, into, c, d, e, f, g), f, data, into)
GATHERS(gather, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i), (data, b, c, into, e, f, g, h, i), h, data, into)
GATHERS(gatherv, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i, word j),
      (data, b, c, into, e, f, g, h, i, j), i, data, into)
GATHERS(scatter, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i), (data, b, c, into, e, f, g, h, i), h, data, into)
GATHERS(scatterv, (void *data, word b, word c, word d, void *into, word f, word g, word h, word i, word j),
      (data, b, c, d, into, f, g, h, i, j), i, data, into)
GATHERS(allgather, (void *data, word b, word c, void *into, word e, word f, word g, word h), (data, b, c, into, e, f, g, h), g, data, into)
GATHERS(allgatherv, (void *data, word b, word c, void *into, word e, word f, word g, word h, word i),
      (data, b, c, into, e, f, g, h, i), h, data, into)
GATHERS(alltoall, (void *data, word b, word c, void *into, word e, word f, word g, word h), (data, b, c, into, e, f, g, h), g, data, into)
GATHERS(alltoallv, (void *data, word b, word c, word d, void *into, word f, word g, word h, word i, word j),
      (data, b, c, d, into, f, g, h, i, j), i, data, into)

extern "C" {
[[gnu::weak]] void pmpi_test_(word, word, word, word);
[[gnu::weak]] void pmpi_testall_(word, word, word, word, word);
[[gnu::weak]] void pmpi_wait_(word, word, word);
[[gnu::weak]] void pmpi_waitall_(word, word, word, word);
[[gnu::weak]] void pmpi_send_(void *, word, word, word, word, word, word);
[[gnu::weak]] void pmpi_ssend_(void *, word, word, word, word, word, word);
[[gnu::weak]] void pmpi_issend_(void *, word, word, word, word, word, word, word);
[[gnu::weak]] void pmpi_recv_(void *, word, word, word, word, word, word, word);
[[gnu::weak]] void pmpi_iprobe_(word, word, word, word, word, word);
[[gnu::weak]] void pmpi_probe_(word, word, word, word, word);
}

namespace {

MPI_Fint ignored_status[sizeof(MPI_Status) / sizeof(MPI_Fint)];

// Until the request is over.
void await(word request, word about, word code, std::initializer_list<const void *> buffers) {
  MPI_Fint is_done = 0;
  look_until([&] {
    pmpi_test_(request, &is_done, about, code);
    return is_done != 0 || *code != MPI_SUCCESS;
  }, buffers);
}

}  // namespace

extern "C" void mpi_wait_(word, word, word);

EXPORTED mpi_send_(void *data, word b, word c, word d, word e, word f, word code) {
  if (!is_paced()) return pmpi_send_(data, b, c, d, e, f, code);
  MPI_Fint request = 0;
  pmpi_isend_(data, b, c, d, e, f, &request, code);
  if (*code == MPI_SUCCESS) await(&request, ignored_status, code, {data});
}

EXPORTED mpi_ssend_(void *data, word b, word c, word d, word e, word f, word code) {
  if (!is_paced()) return pmpi_ssend_(data, b, c, d, e, f, code);
  MPI_Fint request = 0;
  pmpi_issend_(data, b, c, d, e, f, &request, code);
  if (*code == MPI_SUCCESS) await(&request, ignored_status, code, {data});
}

EXPORTED mpi_recv_(void *data, word b, word c, word d, word e, word f, word about, word code) {
  if (!is_paced()) return pmpi_recv_(data, b, c, d, e, f, about, code);
  MPI_Fint request = 0;
  pmpi_irecv_(data, b, c, d, e, f, &request, code);
  if (*code == MPI_SUCCESS) await(&request, about, code, {data, about});
}

extern "C" [[gnu::weak]] void pmpi_sendrecv_(void *, word, word, word, word, void *, word, word, word, word, word, word, word);
EXPORTED mpi_sendrecv_(void *data, word b, word c, word d, word e, void *into, word g, word h, word i, word j, word comm, word about, word code) {
  if (!is_paced()) return pmpi_sendrecv_(data, b, c, d, e, into, g, h, i, j, comm, about, code);
  MPI_Fint sent = 0, sent_code = 0;
  pmpi_isend_(data, b, c, d, e, comm, &sent, code);
  if (*code != MPI_SUCCESS) return;
  request_started(MPI_Request_f2c(sent), {data});
  mpi_recv_(into, g, h, i, j, comm, about, code);
  mpi_wait_(&sent, ignored_status, &sent_code);
  if (*code == MPI_SUCCESS) *code = sent_code;
}

EXPORTED mpi_probe_(word from, word tag, word comm, word about, word code) {
  if (!is_paced()) return pmpi_probe_(from, tag, comm, about, code);
  MPI_Fint is_there = 0;
  look_until([&] {
    pmpi_iprobe_(from, tag, comm, &is_there, about, code);
    return is_there != 0 || *code != MPI_SUCCESS;
  }, {about});
}

EXPORTED mpi_wait_(word request, word about, word code) {
  if (!is_paced()) return pmpi_wait_(request, about, code);
  MPI_Request const before = MPI_Request_f2c(*request);
  await(request, about, code, {request, about});
  request_ended(before);
}

EXPORTED mpi_waitall_(word count, word requests, word abouts, word code) {
  if (!is_paced()) return pmpi_waitall_(count, requests, abouts, code);
  std::vector<MPI_Request> before;
  for (MPI_Fint i = 0; i < *count; i++) before.push_back(MPI_Request_f2c(requests[i]));
  MPI_Fint is_done = 0;
  look_until([&] {
    pmpi_testall_(count, requests, &is_done, abouts, code);
    return is_done != 0 || *code != MPI_SUCCESS;
  }, {requests, abouts});
  for (auto const each : before) request_ended(each);
}

EXPORTED mpi_test_(word request, word is_done, word about, word code) {
  MPI_Request const before = current_swapping() == nullptr ? MPI_REQUEST_NULL : MPI_Request_f2c(*request);
  pmpi_test_(request, is_done, about, code);
  if (*is_done != 0) request_ended(before);
  make_way();
}
