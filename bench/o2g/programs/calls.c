// usage: calls pingpong|stream SIZE COUNT. Sends COUNT messages of SIZE bytes between two ranks,
// alternating or all in one direction. All other system calls of the program are independent of
// COUNT. bench/o2g/syscalls.py counts the calls.
#include <string.h>

#include "measure.h"

enum { WINDOW = 64 };

static void pingpong(int rank, char *buffer, int size, int count) {
  for (int i = 0; i < count / 2; i++) {
    buffer[0] = (char)i;
    if (rank == 0)
      MPI_Send(buffer, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    REQUIRE(buffer[0] == (char)i);
    if (rank == 1)
      MPI_Send(buffer, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
  }
}

// A full window is in flight, the usual way to measure a rate.
static void stream(int rank, char *buffers, int size, int count) {
  for (int done = 0; done < count; done += WINDOW) {
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
      char *const buffer = buffers + (size_t)size * (size_t)i;
      if (rank == 0)
        MPI_Isend(buffer, size, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv(buffer, size, MPI_CHAR, 0, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
  }
  if (rank == 1)
    MPI_Send(buffers, 1, MPI_CHAR, 0, WINDOW, MPI_COMM_WORLD);
  else
    MPI_Recv(buffers, 1, MPI_CHAR, 1, WINDOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  REQUIRE(count == 4);
  int const size = (int)number_option(count, words, 2, 8),
            messages = (int)number_option(count, words, 3, 1000);
  char *const buffers = allocate((size_t)size * WINDOW);
  memset(buffers, 1, (size_t)size * WINDOW);
  (strcmp(words[1], "stream") == 0 ? stream : pingpong)(rank, buffers, size, messages);
  free(buffers);
  MPI_Finalize();
}
