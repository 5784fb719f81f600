// Two ranks of a node exchange many small messages, one at a time.
#include "check.h"

int main(int count, char **words) {
  enum { ROUNDS = 50000 };
  MPI_Init(&count, &words);
  int const rank = own_rank();
  for (int i = 0; i < ROUNDS; i++) {
    int word = i;
    if (rank == 0)
      MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    REQUIRE(word == i);
    if (rank == 1)
      MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
