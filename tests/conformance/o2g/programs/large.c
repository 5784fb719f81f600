// usage: large MEBIBYTES. Large messages: posted before, posted after they were sent, and several
// at once both ways.
#include <time.h>

#include "check.h"

int main(int count, char **words) {
  MPI_Init(&count, &words);
  size_t const size = (size_t)(count > 1 ? atoi(words[1]) : 64) << 20;
  int const rank = own_rank();
  unsigned char *const data = allocate(size), *const into = allocate(size);
  MPI_Request requests[4];
  for (unsigned late = 0; late < 2; late++) {
    if (rank == 0) {
      fill(data, size, late);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Send(data, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else {
      if (!late && rank == 1)
        MPI_Irecv(into, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Barrier(MPI_COMM_WORLD);
      struct timespec const pause = {0, 100 * 1000 * 1000};
      if (late)
        nanosleep(&pause, NULL);
      if (late && rank == 1)
        MPI_Irecv(into, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
      if (rank == 1) {
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        require_pattern(into, size, late);
      }
    }
  }
  if (rank < 2) {
    size_t const half = size / 2;
    fill(data, half, (unsigned)rank);
    fill(data + half, half, (unsigned)rank + 10);
    int const other = 1 - rank;
    for (int i = 0; i < 2; i++) {
      MPI_Isend(
          data + half * (size_t)i, (int)half, MPI_BYTE, other, 2 + i, MPI_COMM_WORLD, &requests[i]);
      MPI_Irecv(into + half * (size_t)(1 - i),
                (int)half,
                MPI_BYTE,
                other,
                3 - i,
                MPI_COMM_WORLD,
                &requests[2 + i]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    require_pattern(into, half, (unsigned)other);
    require_pattern(into + half, half, (unsigned)other + 10);
  }
  free(data);
  free(into);
  MPI_Finalize();
}
