// Every collective, blocking and not, at sizes from one number to more than a rendezvous, with
// every rank as the root.
#include "check.h"

static int rank, ranks;
// Numbers a rank gives: 1, then enough for the large-message algorithms.
static const int sizes[] = {1, 1000, 60000};

static int value(int from, int to, int i) {
  return from * 1000003 + to * 10007 + i;
}

static void broadcast(int count, int root) {
  int *const data = allocate(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; i++)
    data[i] = rank == root ? value(root, 0, i) : -1;
  MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    REQUIRE(data[i] == value(root, 0, i));
  free(data);
}

static void reductions(int count, int root) {
  int *const mine = allocate(sizeof(int) * (size_t)count * (size_t)ranks);
  int *const sum = allocate(sizeof(int) * (size_t)count * (size_t)ranks);
  for (int i = 0; i < count * ranks; i++)
    mine[i] = rank + i;
  int const of_ranks = ranks * (ranks - 1) / 2;
  MPI_Reduce(mine, sum, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  for (int i = 0; i < count && rank == root; i++)
    REQUIRE(sum[i] == of_ranks + ranks * i);
  MPI_Allreduce(mine, sum, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    REQUIRE(sum[i] == ranks - 1 + i);
  MPI_Reduce_scatter_block(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    REQUIRE(sum[i] == of_ranks + ranks * (rank * count + i));
  MPI_Scan(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    REQUIRE(sum[i] == rank * (rank + 1) / 2 + (rank + 1) * i);
  MPI_Exscan(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count && rank > 0; i++)
    REQUIRE(sum[i] == rank * (rank - 1) / 2 + rank * i);
  free(mine);
  free(sum);
}

static void gathers(int count, int root) {
  int *const mine = allocate(sizeof(int) * (size_t)count);
  int *const all = allocate(sizeof(int) * (size_t)count * (size_t)ranks);
  for (int i = 0; i < count; i++)
    mine[i] = value(rank, 0, i);
  MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < count * ranks && rank == root; i++)
    REQUIRE(all[i] == value(i / count, 0, i % count));
  memset(all, 0, sizeof(int) * (size_t)count * (size_t)ranks);
  MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < count * ranks; i++)
    REQUIRE(all[i] == value(i / count, 0, i % count));
  memset(mine, 0, sizeof(int) * (size_t)count);
  MPI_Scatter(all, count, MPI_INT, mine, count, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    REQUIRE(mine[i] == value(rank, 0, i));
  free(mine);
  free(all);
}

// Rank r gives count + r numbers.
static void uneven_gathers(int count, int root) {
  int *const counts = allocate(sizeof(int) * (size_t)ranks), *const places = allocate(
                                                                 sizeof(int) * (size_t)ranks);
  int total = 0;
  for (int r = 0; r < ranks; r++) {
    counts[r] = count + r;
    places[r] = total;
    total += counts[r];
  }
  int *const mine = allocate(sizeof(int) * (size_t)counts[rank]), *const all = allocate(
                                                                      sizeof(int) * (size_t)total);
  for (int i = 0; i < counts[rank]; i++)
    mine[i] = value(rank, 0, i);
  MPI_Allgatherv(mine, counts[rank], MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++)
    for (int i = 0; i < counts[r]; i++)
      REQUIRE(all[places[r] + i] == value(r, 0, i));
  memset(mine, 0, sizeof(int) * (size_t)counts[rank]);
  MPI_Scatterv(all, counts, places, MPI_INT, mine, counts[rank], MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < counts[rank]; i++)
    REQUIRE(mine[i] == value(rank, 0, i));
  memset(all, 0, sizeof(int) * (size_t)total);
  MPI_Gatherv(mine, counts[rank], MPI_INT, all, counts, places, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < counts[ranks - 1] && rank == root; i++)
    REQUIRE(all[places[ranks - 1] + i] == value(ranks - 1, 0, i));
  free(counts);
  free(places);
  free(mine);
  free(all);
}

static void exchanges(int count, int root) {
  (void)root;
  size_t const all = (size_t)count * (size_t)ranks;
  int *const from = allocate(sizeof(int) * all), *const into = allocate(sizeof(int) * all);
  int *const counts = allocate(sizeof(int) * (size_t)ranks), *const places = allocate(
                                                                 sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; r++) {
    counts[r] = count;
    places[r] = count * (ranks - 1 - r);
    for (int i = 0; i < count; i++)
      from[r * count + i] = value(rank, r, i);
  }
  MPI_Alltoall(from, count, MPI_INT, into, count, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++)
    for (int i = 0; i < count; i++)
      REQUIRE(into[r * count + i] == value(r, rank, i));
  memset(into, 0, sizeof(int) * all);
  // The receiving side in reverse places.
  int *const plain = allocate(sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; r++)
    plain[r] = r * count;
  MPI_Alltoallv(from, counts, plain, MPI_INT, into, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++)
    for (int i = 0; i < count; i++)
      REQUIRE(into[places[r] + i] == value(r, rank, i));
  free(from);
  free(into);
  free(counts);
  free(places);
  free(plain);
}

// Several under way at once, completed together.
static void nonblocking(int count, int root) {
  int *const data = allocate(sizeof(int) * (size_t)count), *const sum = allocate(sizeof(int) *
                                                                                 (size_t)count);
  int *const mine = allocate(sizeof(int) * (size_t)count), *const all = allocate(sizeof(int) *
                                                                                 (size_t)count *
                                                                                 (size_t)ranks);
  for (int i = 0; i < count; i++) {
    data[i] = rank == root ? value(root, 1, i) : -1;
    mine[i] = rank + i;
  }
  MPI_Request requests[4];
  MPI_Ibcast(data, count, MPI_INT, root, MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, &requests[2]);
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < count; i++) {
    REQUIRE(data[i] == value(root, 1, i));
    REQUIRE(sum[i] == ranks * (ranks - 1) / 2 + ranks * i);
  }
  for (int i = 0; i < count * ranks; i++)
    REQUIRE(all[i] == i / count + i % count);
  free(data);
  free(sum);
  free(mine);
  free(all);
}

int main(int argument_count, char **words) {
  MPI_Init(&argument_count, &words);
  rank = own_rank();
  ranks = rank_count();
  void (*const kinds[])(int, int) = {
      broadcast, reductions, gathers, uneven_gathers, exchanges, nonblocking};
  for (int size = 0; size < 3; size++)
    for (int root = 0; root < ranks; root++)
      for (int kind = 0; kind < 6; kind++) {
        kinds[kind](sizes[size], root);
        MPI_Barrier(MPI_COMM_WORLD);
      }
  MPI_Finalize();
}
