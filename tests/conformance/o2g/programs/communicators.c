// Many communicators at once: the same source and tag in each, received in another order, and none
// takes another's message.
#include "check.h"

enum { COUNT = 200 };

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int const rank = own_rank(), ranks = rank_count();
  static MPI_Comm comms[COUNT];
  MPI_Request requests[COUNT];
  int data[COUNT], got = 0;
  for (int i = 0; i < COUNT; i++)
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < COUNT; i++) {
    data[i] = rank * COUNT + i;
    MPI_Isend(&data[i], 1, MPI_INT, (rank + 1) % ranks, 1, comms[i], &requests[i]);
  }
  int const before = (rank + ranks - 1) % ranks;
  for (int i = COUNT - 1; i >= 0; i--) {
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], MPI_STATUS_IGNORE);
    REQUIRE(got == before * COUNT + i);
  }
  MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < COUNT; i++)
    MPI_Comm_free(&comms[i]);

  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  int at = 0, size = 0, sum = 0;
  MPI_Comm_rank(part, &at);
  MPI_Comm_size(part, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part);
  int expected = 0;
  for (int other = rank % 2; other < ranks; other += 2)
    expected += other;
  REQUIRE(sum == expected);
  REQUIRE(at == size - 1 - rank / 2);
  MPI_Comm_free(&part);
  MPI_Finalize();
}
