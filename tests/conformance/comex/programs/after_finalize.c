/* Memory of the program that is swapped out after the last library call and after MPI_Finalize,
 * until each rank ends. At no time is more than TND_COMEX_MEMORY resident, and no data are lost.
 * Arguments: megabytes of a rank; whether and in which order ranks end one after another; whether
 * comex_init is called again. */
#include <comex.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static uint64_t *words;
static size_t size;
static int filled; /* number of fills */

/* Resident bytes of all ranks' heaps. The lowest rank has their descriptors. */
static double used(void) {
  double sum = 0;
  DIR *const all = opendir("/proc/self/fd");
  for (struct dirent *each = readdir(all); each != NULL; each = readdir(all)) {
    char path[300], name[300];
    struct stat about;
    snprintf(path, sizeof path, "/proc/self/fd/%s", each->d_name);
    ssize_t const length = readlink(path, name, sizeof name - 1);
    if (length < 0)
      continue;
    name[length] = 0;
    if (strstr(name, "memfd:tanada-pe") != NULL && stat(path, &about) == 0)
      sum += about.st_blocks * 512.0;
  }
  closedir(all);
  return sum / (1 << 20);
}

static void fill(void) {
  filled++;
  for (size_t i = 0; i < size / 8; i++)
    words[i] = i * 31 + (uint64_t)(me * 1000 + filled);
}

static void check(const char *when) {
  for (size_t i = 0; i < size / 8; i++) {
    if (words[i] == i * 31 + (uint64_t)(me * 1000 + filled))
      continue;
    fprintf(stderr, "rank %d: word %zu is another %s\n", me, i, when);
    _exit(3);
  }
}

/* The last action of a rank. */
static void at_the_end(void) {
  check("at the end");
  if (me == 0)
    printf("passed\n");
}

int main(int argc, char **argv) {
  atexit(at_the_end);
  MPI_Init(&argc, &argv);
  CHECK(argc == 4, "words: megabytes, order, again");
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  comex_init();
  size = (size_t)atoi(argv[1]) << 20;
  words = malloc(size);
  fill();
  comex_barrier(COMEX_GROUP_WORLD);
  comex_finalize();
  double most = 0;
  for (int round = 0; round < 3; round++) {
    MPI_Barrier(MPI_COMM_WORLD);
    check("after comex_finalize");
    fill();
    if (me == 0 && used() > most)
      most = used();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (atoi(argv[3]) != 0) {
    comex_init();
    comex_barrier(COMEX_GROUP_WORLD);
    comex_finalize();
  }
  MPI_Finalize();
  check("after MPI_Finalize");
  if (me == 0 && used() > most)
    most = used();
  if (me == 0)
    printf("most %.0f MB\n", most);
  int const order = atoi(argv[2]);
  if (order != 0)
    usleep((unsigned)(200000 * (order > 0 ? me : count - 1 - me)));
  if (order == 0 && me % 2 == 1) {
    free(words);
    words = malloc(size);
    fill();
  }
  return 0;
}
