// usage: cable PROGRESS STOP. Two ranks exchange numbered messages of mixed sizes until the file
// STOP is there; rank 0 writes the number of each round into the file PROGRESS. Messages are sent
// ahead, so that at any moment some are on their way in both directions.
#include <unistd.h>

#include "check.h"

enum { AHEAD = 8, MOST = 200000 };
static int const sizes[] = {8, 3000, MOST, 100};

static size_t size_of(int number) {
  return (size_t)sizes[number % 4];
}

static void write_number(const char *path, int number) {
  FILE *const file = fopen(path, "w");
  REQUIRE(file != NULL);
  fprintf(file, "%d\n", number);
  fclose(file);
}

static void exchange(int round) {
  static unsigned char out[AHEAD][MOST], in[AHEAD][MOST];
  int const own = own_rank(), other = 1 - own;
  MPI_Request requests[2 * AHEAD];
  for (int i = 0; i < AHEAD; i++) {
    int const number = round * AHEAD + i;
    fill(out[i], size_of(number), (unsigned)(2 * number + own));
    MPI_Isend(out[i], (int)size_of(number), MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Irecv(in[i], MOST, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[AHEAD + i]);
  }
  MPI_Status statuses[2 * AHEAD];
  MPI_Waitall(2 * AHEAD, requests, statuses);
  for (int i = 0; i < AHEAD; i++) {
    int const number = round * AHEAD + i;
    int came = 0;
    MPI_Get_count(&statuses[AHEAD + i], MPI_BYTE, &came);
    REQUIRE((size_t)came == size_of(number));
    require_pattern(in[i], size_of(number), (unsigned)(2 * number + other));
  }
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  REQUIRE(count == 3 && rank_count() == 2);
  for (int round = 0, goes_on = 1; goes_on; round++) {
    exchange(round);
    if (own_rank() == 0) {
      write_number(words[1], round + 1);
      goes_on = access(words[2], F_OK) != 0;
    }
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  if (own_rank() == 0)
    printf("all rounds\n");
  MPI_Finalize();
}
