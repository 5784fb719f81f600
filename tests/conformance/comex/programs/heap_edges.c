/* Unusual arguments of malloc and related functions with TND_COMEX_MEMORY, and calls by another
 * thread. */
#include <comex.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

#include "check.h"

static const size_t large = 1 << 20;

static void *allocate(void *unused) {
  (void)unused;
  void *const piece = malloc(large);
  memset(piece, 7, large);
  return piece;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  comex_init();
  char *const mine = malloc(large), *const aligned = memalign(96, large);
  CHECK((uintptr_t)aligned % 128 == 0, "%p", (void *)aligned);
  intptr_t const apart = aligned - mine;
  CHECK(apart < 64 << 20 && -apart < 64 << 20,
        "%p and %p are of one heap",
        (void *)mine,
        (void *)aligned);
  errno = 0;
  volatile size_t huge = SIZE_MAX - 10;
  CHECK(pvalloc(huge) == NULL && errno == ENOMEM, "errno %d", errno);

  pthread_t thread;
  void *theirs = NULL;
  CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, &theirs) == 0,
        "a thread");
  intptr_t const away = (char *)theirs - mine;
  CHECK(
      away > 64 << 20 || -away > 64 << 20, "%p is of the system, %p is not", theirs, (void *)mine);
  free(theirs);
  free(aligned);
  free(mine);
  comex_finalize();
  MPI_Finalize();
  if (me == 0)
    printf("passed\n");
  return 0;
}
