// The MPI calls that the NAS Parallel Benchmarks make from Fortran, for an MPI with only a C
// library. Predefined handles are the numbers of npb.py; others come from MPI_*_c2f.
#include <mpi.h>
#include <stddef.h>

enum { WORLD = -1001, ANY_SOURCE = -1002, ANY_TAG = -1003, WAITED_MAX = 4096 };

static MPI_Comm communicator(const int *handle) {
  return *handle == WORLD ? MPI_COMM_WORLD : MPI_Comm_f2c(*handle);
}

static MPI_Datatype type_of(const int *handle) {
  switch (*handle) {
    case 2:
      return MPI_FLOAT;
    case 3:
      return MPI_DOUBLE;
    case 4:
      return MPI_C_FLOAT_COMPLEX;
    case 5:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_INT;  // integers and logicals
  }
}

static MPI_Op operation(const int *handle) {
  return *handle == 1 ? MPI_MAX : *handle == 2 ? MPI_MIN : MPI_SUM;
}

static int source_of(const int *rank) {
  return *rank == ANY_SOURCE ? MPI_ANY_SOURCE : *rank;
}

static int tag_of(const int *tag) {
  return *tag == ANY_TAG ? MPI_ANY_TAG : *tag;
}

void mpi_init_(int *error) {
  *error = MPI_Init(NULL, NULL);
}

void mpi_finalize_(int *error) {
  *error = MPI_Finalize();
}

void mpi_abort_(int *comm, int *code, int *error) {
  *error = MPI_Abort(communicator(comm), *code);
}

double mpi_wtime_(void) {
  return MPI_Wtime();
}

void mpi_comm_rank_(int *comm, int *rank, int *error) {
  *error = MPI_Comm_rank(communicator(comm), rank);
}

void mpi_comm_size_(int *comm, int *size, int *error) {
  *error = MPI_Comm_size(communicator(comm), size);
}

void mpi_comm_dup_(int *comm, int *made, int *error) {
  MPI_Comm copy;
  *error = MPI_Comm_dup(communicator(comm), &copy);
  *made = MPI_Comm_c2f(copy);
}

void mpi_comm_split_(int *comm, int *color, int *key, int *made, int *error) {
  MPI_Comm part;
  *error = MPI_Comm_split(communicator(comm), *color, *key, &part);
  *made = MPI_Comm_c2f(part);
}

void mpi_barrier_(int *comm, int *error) {
  *error = MPI_Barrier(communicator(comm));
}

void mpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *error) {
  *error = MPI_Bcast(data, *count, type_of(type), *root, communicator(comm));
}

void mpi_reduce_(
    void *given, void *result, int *count, int *type, int *op, int *root, int *comm, int *error) {
  *error =
      MPI_Reduce(given, result, *count, type_of(type), operation(op), *root, communicator(comm));
}

void mpi_allreduce_(
    void *given, void *result, int *count, int *type, int *op, int *comm, int *error) {
  *error = MPI_Allreduce(given, result, *count, type_of(type), operation(op), communicator(comm));
}

void mpi_alltoall_(void *given,
                   int *count,
                   int *type,
                   void *got,
                   int *got_count,
                   int *got_type,
                   int *comm,
                   int *error) {
  *error = MPI_Alltoall(
      given, *count, type_of(type), got, *got_count, type_of(got_type), communicator(comm));
}

void mpi_send_(void *data, int *count, int *type, int *target, int *tag, int *comm, int *error) {
  *error = MPI_Send(data, *count, type_of(type), *target, *tag, communicator(comm));
}

// None of the programs reads a status.
void mpi_recv_(
    void *data, int *count, int *type, int *source, int *tag, int *comm, int *status, int *error) {
  (void)status;
  *error = MPI_Recv(data,
                    *count,
                    type_of(type),
                    source_of(source),
                    tag_of(tag),
                    communicator(comm),
                    MPI_STATUS_IGNORE);
}

void mpi_isend_(
    void *data, int *count, int *type, int *target, int *tag, int *comm, int *handle, int *error) {
  MPI_Request request;
  *error = MPI_Isend(data, *count, type_of(type), *target, *tag, communicator(comm), &request);
  *handle = MPI_Request_c2f(request);
}

void mpi_irecv_(
    void *data, int *count, int *type, int *source, int *tag, int *comm, int *handle, int *error) {
  MPI_Request request;
  *error = MPI_Irecv(
      data, *count, type_of(type), source_of(source), tag_of(tag), communicator(comm), &request);
  *handle = MPI_Request_c2f(request);
}

void mpi_wait_(int *handle, int *status, int *error) {
  (void)status;
  MPI_Request request = MPI_Request_f2c(*handle);
  *error = MPI_Wait(&request, MPI_STATUS_IGNORE);
  *handle = MPI_Request_c2f(request);
}

void mpi_waitall_(int *count, int *handles, int *statuses, int *error) {
  (void)statuses;
  MPI_Request requests[WAITED_MAX];
  if (*count > WAITED_MAX)
    MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < *count; i++)
    requests[i] = MPI_Request_f2c(handles[i]);
  *error = MPI_Waitall(*count, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < *count; i++)
    handles[i] = MPI_Request_c2f(requests[i]);
}
