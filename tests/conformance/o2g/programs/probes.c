// Probe, matched probe and their kinds that do not wait; cancelling a receive; a message longer
// than its receive.
#include "check.h"

enum { LARGE = 1 << 20 };

// `count` messages to rank 0: number i has size_of(i) bytes and the tag tag + i * step. None waits
// for its receive.
static void send_several(unsigned count, size_t (*size_of)(unsigned), int tag, int step) {
  static unsigned char data[4][LARGE];
  MPI_Request requests[4];
  for (unsigned i = 0; i < count; i++) {
    fill(data[i], size_of(i), i);
    MPI_Isend(
        data[i], (int)size_of(i), MPI_BYTE, 0, tag + (int)i * step, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
}

static size_t probed_size(unsigned i) {
  return i == 1 ? LARGE : 100 + i;
}

static size_t claimed_size(unsigned i) {
  return i % 2 ? LARGE : 64;
}

static void probe(int rank) {
  static unsigned char data[LARGE];
  if (rank == 1)
    send_several(3, probed_size, 10, 1);
  if (rank != 0)
    return;
  for (unsigned i = 3; i-- > 0;) {
    MPI_Status status;
    int size = 0;
    MPI_Probe(MPI_ANY_SOURCE, (int)(10 + i), MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &size);
    REQUIRE(status.MPI_SOURCE == 1 && status.MPI_TAG == (int)(10 + i));
    REQUIRE((size_t)size == probed_size(i));
    // A probe takes nothing away.
    int there = 0;
    MPI_Iprobe(1, (int)(10 + i), MPI_COMM_WORLD, &there, &status);
    REQUIRE(there);
    MPI_Recv(data, size, MPI_BYTE, 1, (int)(10 + i), MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    require_pattern(data, (size_t)size, i);
  }
  int there = 1;
  MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  REQUIRE(!there);
}

static void matched_probe(int rank) {
  static unsigned char data[LARGE];
  if (rank == 1)
    send_several(4, claimed_size, 20, 0);
  if (rank != 0)
    return;
  MPI_Message first, second;
  MPI_Status status;
  MPI_Mprobe(MPI_ANY_SOURCE, 20, MPI_COMM_WORLD, &first, &status);
  int there = 0;
  while (!there)
    MPI_Improbe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &second, &status);
  // What was claimed first may be received last, and no other receive gets it.
  MPI_Recv(data, LARGE, MPI_BYTE, 1, 20, MPI_COMM_WORLD, &status);
  require_pattern(data, 64, 2);
  MPI_Mrecv(data, LARGE, MPI_BYTE, &second, &status);
  require_pattern(data, LARGE, 1);
  REQUIRE(status.MPI_TAG == 20 && second == MPI_MESSAGE_NULL);
  MPI_Request request;
  MPI_Imrecv(data, LARGE, MPI_BYTE, &first, &request);
  MPI_Wait(&request, &status);
  require_pattern(data, 64, 0);
  MPI_Recv(data, LARGE, MPI_BYTE, 1, 20, MPI_COMM_WORLD, &status);
  require_pattern(data, LARGE, 3);
}

static void cancel(int rank) {
  unsigned char data[64], other[64];
  if (rank == 0) {
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    MPI_Irecv(data, 64, MPI_BYTE, 1, 30, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    REQUIRE(cancelled);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(other, 64, MPI_BYTE, 1, 30, MPI_COMM_WORLD, &status);
    require_pattern(other, 64, 5);
    // One that has matched is not cancelled.
    MPI_Irecv(data, 64, MPI_BYTE, 1, 31, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(other, 64, MPI_BYTE, 1, 32, MPI_COMM_WORLD, &status);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    REQUIRE(!cancelled);
    require_pattern(data, 64, 6);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    fill(data, 64, 5);
    if (rank == 1)
      MPI_Send(data, 64, MPI_BYTE, 0, 30, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    fill(data, 64, 6);
    if (rank == 1)
      MPI_Send(data, 64, MPI_BYTE, 0, 31, MPI_COMM_WORLD);
    if (rank == 1)
      MPI_Send(data, 64, MPI_BYTE, 0, 32, MPI_COMM_WORLD);
  }
}

// Posted before and after arrival; the bytes behind the receive stay as they were.
static void truncated(int rank, int size) {
  static unsigned char data[LARGE];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int posted = 0; posted < 2; posted++) {
    if (rank == 0) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status;
      memset(data, 0xEE, sizeof data);
      if (posted)
        MPI_Irecv(data, 16, MPI_BYTE, 1, 40, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      if (!posted) {
        MPI_Probe(1, 40, MPI_COMM_WORLD, &status);
        MPI_Irecv(data, 16, MPI_BYTE, 1, 40, MPI_COMM_WORLD, &request);
      }
      int const error = MPI_Wait(&request, &status);
      int kind = MPI_SUCCESS;
      MPI_Error_class(error, &kind);
      REQUIRE(kind == MPI_ERR_TRUNCATE);
      for (size_t i = 16; i < LARGE; i++)
        REQUIRE(data[i] == 0xEE);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 1)
        MPI_Send(data, size, MPI_BYTE, 0, 40, MPI_COMM_WORLD);
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  void (*const kinds[])(int) = {probe, matched_probe, cancel};
  for (int kind = 0; kind < 3; kind++) {
    kinds[kind](own_rank());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  truncated(own_rank(), 100);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
