// usage: point ROUNDS. Half round trips of 8 B and 4 KiB, and the rate of messages of 1 and 4 MiB,
// between two ranks. Of several parts of a run the best counts, because other load on the machine
// only adds time.
#include <string.h>

#include "measure.h"

enum { PARTS = 5, WINDOW = 8 };

static double half_round_trip_s(int rank, char *buffer, int size, int rounds) {
  double best = 1e9;
  for (int part = 0; part < PARTS; part++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = now_s();
    for (int i = 0; i < rounds; i++) {
      buffer[0] = (char)i;
      if (rank == 0)
        MPI_Send(buffer, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      REQUIRE(buffer[0] == (char)i);
      if (rank == 1)
        MPI_Send(buffer, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    double const each = (now_s() - start) / rounds / 2;
    if (each < best)
      best = each;
  }
  return best;
}

// Bytes per second that one rank receives while the other keeps WINDOW messages in flight.
static double bandwidth(int rank, char *buffers, size_t size, int rounds) {
  double best = 0;
  for (int part = 0; part < PARTS; part++) {
    MPI_Request requests[WINDOW];
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = now_s();
    for (int i = 0; i < rounds; i++) {
      for (int k = 0; k < WINDOW; k++) {
        char *const buffer = buffers + size * (size_t)k;
        if (rank == 0)
          MPI_Isend(buffer, (int)size, MPI_CHAR, 1, k, MPI_COMM_WORLD, &requests[k]);
        else
          MPI_Irecv(buffer, (int)size, MPI_CHAR, 0, k, MPI_COMM_WORLD, &requests[k]);
      }
      MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
    // The sender's clock stops when the receiver has the last message.
    char done = 0;
    if (rank == 1)
      MPI_Send(&done, 1, MPI_CHAR, 0, WINDOW, MPI_COMM_WORLD);
    else
      MPI_Recv(&done, 1, MPI_CHAR, 1, WINDOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double const rate = (double)size * WINDOW * rounds / (now_s() - start);
    if (rate > best)
      best = rate;
  }
  return best;
}

int main(int count, char **words) {
  int rank = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int const rounds = (int)number_option(count, words, 1, 2000);
  size_t const largest = 4 << 20;
  char *const buffers = allocate(largest * WINDOW);
  memset(buffers, rank + 1, largest * WINDOW);  // touch the pages before the clock runs

  half_round_trip_s(rank, buffers, 8, rounds / 4);
  double const small = half_round_trip_s(rank, buffers, 8, rounds);
  double const page = half_round_trip_s(rank, buffers, 4096, rounds);
  bandwidth(rank, buffers, 1 << 20, 2);
  double const one = bandwidth(rank, buffers, 1 << 20, rounds / 100 + 2);
  double const four = bandwidth(rank, buffers, largest, rounds / 400 + 2);
  if (rank == 0) {
    figure("half_8", small);
    figure("half_4096", page);
    figure("rate_1m", one);
    figure("rate_4m", four);
  }
  free(buffers);
  MPI_Finalize();
}
