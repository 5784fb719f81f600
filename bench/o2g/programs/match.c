// usage: match COUNT ROUNDS. Seconds for a 64 B message, with COUNT of them from rank 0 to rank 1
// and each tag used once: unexpected: received one after the other in reverse sending order.
// posted: all receives posted in reverse order before the first is sent. wildcard: received in
// order with MPI_ANY_SOURCE and MPI_ANY_TAG. Then peak_mib, the receiver's memory.
#include <string.h>

#include "measure.h"

enum { SIZE = 64 };

static void fill(char *message, int tag) {
  memset(message, 0, SIZE);
  memcpy(message, &tag, sizeof tag);
}

static void send_all(int count) {
  char message[SIZE];
  for (int tag = 0; tag < count; tag++) {
    fill(message, tag);
    MPI_Send(message, SIZE, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
  }
}

static void check(const char *message, int tag) {
  int got = 0;
  memcpy(&got, message, sizeof got);
  REQUIRE(got == tag);
}

static void receive_reverse(int count) {
  char message[SIZE];
  for (int tag = count - 1; tag >= 0; tag--) {
    MPI_Recv(message, SIZE, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(message, tag);
  }
}

static void receive_any(int count) {
  char message[SIZE];
  for (int tag = 0; tag < count; tag++) {
    MPI_Status status;
    MPI_Recv(message, SIZE, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    REQUIRE(status.MPI_TAG == tag);
    check(message, tag);
  }
}

static double unexpected_s(int rank, int count) {
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = now_s();
  if (rank == 0)
    send_all(count);
  else
    receive_reverse(count);
  return (now_s() - start) / count;
}

static double wildcard_s(int rank, int count) {
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = now_s();
  if (rank == 0)
    send_all(count);
  else
    receive_any(count);
  return (now_s() - start) / count;
}

static double posted_s(int rank, int count) {
  char *const messages = allocate((size_t)count * SIZE);
  MPI_Request *const requests = allocate((size_t)count * sizeof *requests);
  double const before = now_s();
  if (rank == 1)
    for (int i = 0; i < count; i++) {
      int const tag = count - 1 - i;
      MPI_Irecv(
          messages + (size_t)tag * SIZE, SIZE, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &requests[i]);
    }
  double const posting = now_s() - before;
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = now_s();
  if (rank == 0)
    send_all(count);
  else
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  double const took = posting + now_s() - start;
  if (rank == 1)
    for (int tag = 0; tag < count; tag++)
      check(messages + (size_t)tag * SIZE, tag);
  free(requests);
  free(messages);
  return took / count;
}

int main(int count, char **words) {
  int rank = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int const messages = (int)number_option(count, words, 1, 10000);
  int const rounds = (int)number_option(count, words, 2, 3);
  static const char *const names[] = {"wildcard", "posted", "unexpected"};
  double (*const kinds[])(int, int) = {wildcard_s, posted_s, unexpected_s};
  for (int kind = 0; kind < 3; kind++) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
      double const took = kinds[kind](rank, messages);
      if (took < best)
        best = took;
    }
    // Printed immediately: a later kind may hang.
    if (rank == 1)
      figure(names[kind], best);
    fflush(stdout);
  }
  if (rank == 1)
    figure("peak_mib", peak_mib());
  MPI_Finalize();
}
