// usage: ring SIZE COUNT. Seconds of a step in which each rank sends SIZE bytes to its right
// neighbour and receives as many from its left one, the median of COUNT steps.
#include <string.h>

#include "measure.h"

static int compare(const void *left, const void *right) {
  double const difference = *(const double *)left - *(const double *)right;
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

int main(int count, char **words) {
  int rank = 0, ranks = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int const size = (int)number_option(count, words, 1, 1 << 20);
  int const steps = (int)number_option(count, words, 2, 10);
  REQUIRE(size > 0 && steps > 0);
  int const right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  char *const given = allocate((size_t)size);
  char *const taken = allocate((size_t)size);
  double *const each = allocate((size_t)steps * sizeof *each);
  for (int i = -1; i < steps; i++) {  // the first one connects
    memset(given, rank + i + 2, (size_t)size);
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = now_s();
    MPI_Sendrecv(given,
                 size,
                 MPI_CHAR,
                 right,
                 1,
                 taken,
                 size,
                 MPI_CHAR,
                 left,
                 1,
                 MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    double const mine = now_s() - start;
    REQUIRE(taken[0] == (char)(left + i + 2) && taken[size - 1] == taken[0]);
    double slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (i >= 0)
      each[i] = slowest;
  }
  if (rank == 0) {
    qsort(each, (size_t)steps, sizeof *each, compare);
    figure("step", each[steps / 2]);
  }
  free(each);
  free(taken);
  free(given);
  MPI_Finalize();
}
