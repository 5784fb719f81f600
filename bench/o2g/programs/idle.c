// usage: idle SECONDS. Processor seconds of all ranks together while the job is idle for SECONDS:
// asleep: every rank is outside the library. blocked: all but rank 0 wait in MPI_Recv, rank 0 is
// outside.
#include "measure.h"

static double of_all(double mine) {
  double sum = 0;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return sum;
}

int main(int count, char **words) {
  int rank = 0, ranks = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double const seconds = number_option(count, words, 1, 30);
  // Every pair has communicated before: a job without connections would be idle at no cost.
  int *const got = allocate(sizeof(int) * (size_t)ranks);
  int *const given = allocate(sizeof(int) * (size_t)ranks);
  MPI_Alltoall(given, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);

  double start = processor_s();
  sleep_s(seconds);
  double const asleep = of_all(processor_s() - start);
  start = processor_s();
  if (rank == 0) {
    sleep_s(seconds);
    for (int other = 1; other < ranks; other++)
      MPI_Send(&rank, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&count, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  double const blocked = of_all(processor_s() - start);
  if (rank == 0) {
    figure("asleep", asleep);
    figure("blocked", blocked);
  }
  free(got);
  free(given);
  MPI_Finalize();
}
