// The modes of sending: synchronous, buffered, ready; persistent requests; self messages; empty
// messages; MPI_PROC_NULL.
#include "check.h"

enum { SIZE = 100000 };

static void synchronous(int rank) {
  static unsigned char data[SIZE];
  if (rank == 0) {
    fill(data, 100, 1);
    MPI_Request request;
    int done = 0;
    MPI_Issend(data, 100, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
    // The receiver waits for this before it posts: the send cannot have completed yet.
    for (int i = 0; i < 100; i++) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      REQUIRE(!done);
    }
    MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fill(data, SIZE, 2);
    MPI_Ssend(data, SIZE, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(data, 100, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    require_pattern(data, 100, 1);
    MPI_Recv(data, SIZE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    require_pattern(data, SIZE, 2);
  }
}

static void buffered(int rank) {
  static unsigned char data[SIZE];
  enum { COUNT = 5 };
  int const space = COUNT * (SIZE + MPI_BSEND_OVERHEAD);
  if (rank == 0) {
    void *buffer = allocate((size_t)space);
    MPI_Buffer_attach(buffer, space);
    for (unsigned i = 0; i < COUNT; i++) {
      fill(data, SIZE, i);
      MPI_Bsend(data, SIZE, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    }
    int size = 0;
    MPI_Buffer_detach(&buffer, &size);
    REQUIRE(size == space);
    free(buffer);
  } else if (rank == 1) {
    for (unsigned i = 0; i < COUNT; i++) {
      MPI_Recv(data, SIZE, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      require_pattern(data, SIZE, i);
    }
  }
}

static void persistent(int rank) {
  static unsigned char data[SIZE];
  MPI_Request request;
  if (rank == 0)
    MPI_Send_init(data, SIZE, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
  else if (rank == 1)
    MPI_Recv_init(data, SIZE, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
  else
    return;
  for (unsigned i = 0; i < 20; i++) {
    if (rank == 0)
      fill(data, SIZE, i);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1)
      require_pattern(data, SIZE, i);
  }
  MPI_Request_free(&request);
}

static void ready(int rank) {
  unsigned char data[64];
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1)
    MPI_Irecv(data, 64, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  fill(data, rank == 0 ? 64 : 0, 9);
  if (rank == 0)
    MPI_Rsend(data, 64, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1)
    require_pattern(data, 64, 9);
}

static void self(int rank) {
  static unsigned char from[SIZE], into[SIZE];
  MPI_Request requests[2];
  fill(from, SIZE, (unsigned)rank);
  MPI_Isend(from, SIZE, MPI_BYTE, rank, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(into, SIZE, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  require_pattern(into, SIZE, (unsigned)rank);
  MPI_Status status;
  MPI_Sendrecv(NULL, 0, MPI_BYTE, rank, 8, NULL, 0, MPI_BYTE, rank, 8, MPI_COMM_WORLD, &status);
  REQUIRE(status.MPI_SOURCE == rank);
  MPI_Recv(into, SIZE, MPI_BYTE, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &status);
  REQUIRE(status.MPI_SOURCE == MPI_PROC_NULL);
}

// Both ends send a large message first: legal as the receives are posted.
static void exchange(int rank) {
  static unsigned char from[SIZE * 40], into[SIZE * 40];
  int const partner = rank ^ 1;
  if (partner >= rank_count())
    return;
  fill(from, sizeof from, (unsigned)rank);
  MPI_Sendrecv(from,
               sizeof from,
               MPI_BYTE,
               partner,
               10,
               into,
               sizeof into,
               MPI_BYTE,
               partner,
               10,
               MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  require_pattern(into, sizeof into, (unsigned)partner);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  void (*const kinds[])(int) = {synchronous, buffered, persistent, ready, self, exchange};
  for (int kind = 0; kind < 6; kind++) {
    kinds[kind](own_rank());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
