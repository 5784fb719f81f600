// A program that does its own work and looks for a message in between: MPI_Test must not keep it,
// whatever it did before. Counted are the times that the thread gave up its processor of its own
// will; on a busy machine it loses the processor more often than that.
#include <sys/resource.h>
#include <time.h>

#include "check.h"

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

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

// Pieces of work, each with a test behind it. Returns how often the tests slept; no more than
// `limit` times.
static long pieces(MPI_Request *request, double piece_s, int count, long limit) {
  long slept = 0;
  for (int i = 0; i < count && slept <= limit; i++) {
    work(piece_s);
    int has_come = 0;
    long const before = sleep_count();
    MPI_Test(request, &has_come, MPI_STATUS_IGNORE);
    slept += sleep_count() - before;
    REQUIRE(!has_come);
  }
  return slept;
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int word = 0;
  if (own_rank() == 0) {
    MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    // An MPI may sleep once in a while for reasons of its own.
    REQUIRE(pieces(&request, 0, 200000, 20) <= 20);
    REQUIRE(pieces(&request, 2e-6, 50000, 20) <= 20);
    REQUIRE(pieces(&request, 5e-3, 40, 4) <= 4);
    MPI_Send(&count, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    REQUIRE(word == count);
  }
  MPI_Finalize();
}
