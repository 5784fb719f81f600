// usage: polling pieces COUNT MICROSECONDS LOOK_SECONDS | put COUNT Measures the cost for a program
// that polls for messages during its own work. pieces: rank 1 waits for a message by MPI_Test for
// LOOK_SECONDS, then does COUNT pieces of work of MICROSECONDS each with one MPI_Test after each.
// total: seconds of all pieces; longest: of one MPI_Test, including time taken by other programs;
// sleeps: how often an MPI_Test put the thread to sleep, which other programs cannot cause. put:
// rank 1 writes 8 bytes to rank 0 by MPI_Put and MPI_Win_flush_local, COUNT times. each: seconds of
// one.
#include <string.h>
#include <sys/resource.h>

#include "measure.h"

static void work(double seconds) {
  double const end = now_s() + seconds;
  while (now_s() < end)
    continue;
}

static long sleep_count(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

struct tests {
  double total_s, longest_s, sleeps;
};

// The message must not have arrived yet.
static void test(MPI_Request *request, struct tests *all) {
  int has_come = 0;
  long const before = sleep_count();
  double const start = now_s();
  MPI_Test(request, &has_come, MPI_STATUS_IGNORE);
  double const took = now_s() - start;
  all->sleeps += (double)(sleep_count() - before);
  if (took > all->longest_s)
    all->longest_s = took;
  REQUIRE(!has_come);
}

static void pieces(int rank, int piece_count, double piece_s, double look_s) {
  int word = 0, done = 1;
  if (rank == 0) {
    MPI_Recv(&done, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    word = 7;
    MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(&done, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct tests all;
    MPI_Recv(&all, 3, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    figure("total", all.total_s);
    figure("longest", all.longest_s);
    figure("sleeps", all.sleeps);
    return;
  }
  MPI_Request request;
  MPI_Irecv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
  struct tests before = {0, 0, 0}, all = {0, 0, 0};
  for (double const end = now_s() + look_s; now_s() < end;)
    test(&request, &before);
  double const start = now_s();
  for (int i = 0; i < piece_count; i++) {
    work(piece_s);
    test(&request, &all);
  }
  all.total_s = now_s() - start;
  MPI_Send(&done, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  REQUIRE(word == 7);
  MPI_Send(&done, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  MPI_Send(&all, 3, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
}

static void put(int rank, int put_count) {
  double each = 0;
  long long *memory = NULL;
  MPI_Win window;
  // Not MPI_Win_allocate, which uses memory shared by the ranks of a node.
  memory = allocate(sizeof *memory);
  MPI_Win_create(memory, sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_lock_all(0, window);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    long long value = 0;
    double start = now_s();
    for (int i = -10; i < put_count; i++) {
      if (i == 0)
        start = now_s();  // connected by then
      value = i;
      MPI_Put(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window);
      MPI_Win_flush_local(0, window);
    }
    each = (now_s() - start) / put_count;
    MPI_Win_flush(0, window);
    MPI_Send(&each, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
  } else {
    // Not by MPI_Recv: there MPICH yields the processor to other programs, which would change the
    // figure.
    MPI_Request request;
    MPI_Irecv(&each, 1, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, &request);
    for (int has_come = 0; !has_come;)
      MPI_Test(&request, &has_come, MPI_STATUS_IGNORE);
    MPI_Win_sync(window);
    REQUIRE(*memory == put_count - 1);
    figure("each", each);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  free(memory);
}

int main(int count, char **words) {
  int rank = 0, ranks = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  REQUIRE(ranks == 2 && count >= 3);
  int const number = (int)number_option(count, words, 2, 1000);
  if (strcmp(words[1], "put") == 0)
    put(rank, number);
  else
    pieces(
        rank, number, 1e-6 * number_option(count, words, 3, 2), number_option(count, words, 4, 0));
  MPI_Finalize();
}
