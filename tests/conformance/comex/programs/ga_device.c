/* Global Arrays in GPU memory: put, get, accumulate and counters must give the same results as on
 * the host. Can be built with Global Arrays 5.8 and later. */
#include <ga.h>
#include <macdecls.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 61, COLUMNS = 47 };

static char gpu[] = "gpu"; /* Global Arrays writes to it */

static int check(int is_so, const char *what) {
  if (!is_so)
    fprintf(stderr, "rank %d: not so: %s\n", GA_Nodeid(), what);
  if (!is_so)
    GA_Error("wrong", 1);
  return is_so;
}

static int array_on(char *device) {
  int dims[2] = {ROWS, COLUMNS}, made = GA_Create_handle();
  GA_Set_data(made, 2, dims, C_DBL);
  if (device != NULL)
    GA_Set_memory_dev(made, device);
  check(GA_Allocate(made), "it is allocated");
  return made;
}

/* A patch that lies on several ranks, used by each rank in turn. */
static void put_patches(int array, double factor) {
  for (int rank = 0; rank < GA_Nnodes(); rank++) {
    int lo[2] = {rank % 7, 3}, hi[2] = {ROWS - 1 - rank % 5, COLUMNS - 4}, ld = hi[1] - lo[1] + 1;
    double *values = malloc(sizeof *values * (size_t)((hi[0] - lo[0] + 1) * ld)), scale = 0.5;
    for (int i = 0; i < (hi[0] - lo[0] + 1) * ld; i++)
      values[i] = factor * i + rank;
    if (rank == GA_Nodeid())
      NGA_Put(array, lo, hi, values, &ld);
    GA_Sync();
    NGA_Acc(array, lo, hi, values, &ld, &scale);
    GA_Sync();
    free(values);
  }
}

int main(int argc, char **argv) {
  static double on_device[ROWS][COLUMNS], on_host[ROWS][COLUMNS], zeros[ROWS][COLUMNS];
  int lo[2] = {0, 0}, hi[2] = {ROWS - 1, COLUMNS - 1}, ld = COLUMNS;
  MPI_Init(&argc, &argv);
  GA_Initialize();
  MA_init(C_DBL, 100000, 100000);
  int device = array_on(gpu), host = array_on(NULL);
  if (GA_Nodeid() == 0) {
    NGA_Put(device, lo, hi, zeros, &ld);
    NGA_Put(host, lo, hi, zeros, &ld);
  }
  GA_Sync();
  put_patches(device, 1.25);
  put_patches(host, 1.25);
  NGA_Get(device, lo, hi, on_device, &ld);
  NGA_Get(host, lo, hi, on_host, &ld);
  for (int i = 0; i < ROWS; i++) {
    for (int j = 0; j < COLUMNS; j++)
      check(on_device[i][j] == on_host[i][j], "all elements are those of the host's");
  }
  int one = 1, counter = GA_Create_handle(), first = 0;
  GA_Set_data(counter, 1, &one, C_LONG);
  GA_Set_memory_dev(counter, gpu);
  check(GA_Allocate(counter), "the counter is allocated");
  long none = 0, seen = 0;
  if (GA_Nodeid() == 0)
    NGA_Put(counter, &first, &first, &none, &one);
  GA_Sync();
  for (int i = 0; i < 50; i++)
    NGA_Read_inc(counter, &first, 2);
  GA_Sync();
  NGA_Get(counter, &first, &first, &seen, &one);
  check(seen == 100L * GA_Nnodes(), "everybody's counts are there");
  GA_Sync();
  GA_Destroy(counter);
  GA_Destroy(device);
  GA_Destroy(host);
  if (GA_Nodeid() == 0)
    printf("passed\n");
  GA_Terminate();
  MPI_Finalize();
  return 0;
}
