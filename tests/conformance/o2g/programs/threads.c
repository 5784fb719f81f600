// usage: threads exchange|share. MPI_THREAD_MULTIPLE: several threads of each rank send and receive
// at once, each by its tag; or threads of rank 0 share out by matched probe what the others send.
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 150, LARGE = 200000 };

static void *exchange(void *argument) {
  int const thread = *(int *)argument;
  int const rank = own_rank(), ranks = rank_count();
  unsigned char *const from = allocate(LARGE), *const into = allocate(LARGE);
  for (int i = 0; i < ROUNDS; i++) {
    size_t const size = i % 10 ? 1 + (size_t)i * 7 : LARGE;
    int const right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned const seed = (unsigned)(thread * ROUNDS + i);
    MPI_Request requests[2];
    fill(from, size, seed + (unsigned)rank * 100000);
    MPI_Irecv(into, LARGE, MPI_BYTE, left, thread, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(from, (int)size, MPI_BYTE, right, thread, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    require_pattern(into, size, seed + (unsigned)left * 100000);
  }
  free(from);
  free(into);
  return NULL;
}

static void exchange_all(void) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    REQUIRE(pthread_create(&threads[i], NULL, exchange, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

// Threads of rank 0 share messages out among them; each message goes to one of them, whole.
static void *take(void *argument) {
  int *const taken = argument;
  unsigned char data[64];
  for (;;) {
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_ANY_SOURCE, 50, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(data, 64, MPI_BYTE, &message, &status);
    if (data[0] == 0)
      return NULL;
    require_pattern(data + 1, 63, data[0]);
    ++*taken;
  }
}

static void share(int rank, int ranks) {
  pthread_t threads[THREADS];
  int taken[THREADS] = {0};
  if (rank == 0) {
    for (int i = 0; i < THREADS; i++)
      REQUIRE(pthread_create(&threads[i], NULL, take, &taken[i]) == 0);
    MPI_Barrier(MPI_COMM_WORLD);  // all are sent
    unsigned char const stop[64] = {0};
    for (int i = 0; i < THREADS; i++)
      MPI_Send(stop, 64, MPI_BYTE, 0, 50, MPI_COMM_WORLD);
    int sum = 0;
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
      sum += taken[i];
    }
    REQUIRE(sum == ROUNDS * (ranks - 1));
  } else {
    unsigned char data[64];
    for (int i = 0; i < ROUNDS; i++) {
      data[0] = (unsigned char)(1 + i % 200);
      fill(data + 1, 63, data[0]);
      MPI_Ssend(data, 64, MPI_BYTE, 0, 50, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int count, char **words) {
  int level = 0;
  MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
  REQUIRE(level == MPI_THREAD_MULTIPLE);
  if (count > 1 && strcmp(words[1], "share") == 0)
    share(own_rank(), rank_count());
  else
    exchange_all();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
