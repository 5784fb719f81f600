// Measures operations of rank 0 on memory of rank 1 through ARMCI: contiguous, strided and
// accumulating transfers by size, atomics and mutexes; and barriers of all ranks. The other ranks
// wait in a barrier meanwhile, as ranks of Global Arrays do. Each figure is the median of several
// runs; moved data are checked.
#include <string.h>

#include "measure.h"

enum { LARGEST = 1 << 20, PITCH = 4096, AREA = 4 << 20 };

static char *area[4096];
static char *mine;

static void put(int size) {
  ARMCI_Put(mine, area[1], size, 1);
  ARMCI_Fence(1);
}
static void get(int size) {
  ARMCI_Get(area[1], mine, size, 1);
}
static void accumulate(int size) {
  double one = 1;
  ARMCI_Acc(ARMCI_ACC_DBL, &one, mine, area[1], size, 1);
  ARMCI_Fence(1);
}

// Rows of 512 bytes of a matrix with PITCH bytes a row; contiguous on the local side.
static int strides_there[1] = {PITCH}, strides_here[1] = {512};
static void put_rows(int size) {
  int counts[2] = {512, size / 512};
  ARMCI_PutS(mine, strides_here, area[1], strides_there, counts, 1, 1);
  ARMCI_Fence(1);
}
static void get_rows(int size) {
  int counts[2] = {512, size / 512};
  ARMCI_GetS(area[1], strides_there, mine, strides_here, counts, 1, 1);
}
static void accumulate_rows(int size) {
  int counts[2] = {512, size / 512};
  double one = 1;
  ARMCI_AccS(ARMCI_ACC_DBL, &one, mine, strides_here, area[1], strides_there, counts, 1, 1);
  ARMCI_Fence(1);
}
// A column: words, PITCH bytes apart.
static int strides_of_words[1] = {8};
static void put_words(int size) {
  int counts[2] = {8, size / 8};
  ARMCI_PutS(mine, strides_of_words, area[1], strides_there, counts, 1, 1);
  ARMCI_Fence(1);
}

static void get_words(int size) {
  int counts[2] = {8, size / 8};
  ARMCI_GetS(area[1], strides_there, mine, strides_of_words, counts, 1, 1);
}
// The same as a list of pieces.
static void *places_there[1000], *places_here[1000];
static void put_list(int size) {
  armci_giov_t pieces = {places_here, places_there, size / 8, 8};
  ARMCI_PutV(&pieces, 1, 1);
  ARMCI_Fence(1);
}
// Whether the data were put: some ARMCIs return at once if pieces are far apart.
static int is_list_there(void) {
  if (me != 0)
    return 1;
  for (int i = 0; i < 8000; i++)
    mine[i] = (char)(i * 5 + 1);
  put_list(8000);
  memset(mine, 0, 8000);
  get_words(8000);
  for (int i = 0; i < 8000; i++) {
    if (mine[i] != (char)(i * 5 + 1))
      return 0;
  }
  return 1;
}
// Blocks of 1 KiB.
static int strides_of_blocks[1] = {1024};
static void put_blocks(int size) {
  int counts[2] = {1024, size / 1024};
  ARMCI_PutS(mine, strides_of_blocks, area[1], strides_there, counts, 1, 1);
  ARMCI_Fence(1);
}
static void get_blocks(int size) {
  int counts[2] = {1024, size / 1024};
  ARMCI_GetS(area[1], strides_there, mine, strides_of_blocks, counts, 1, 1);
}

static void fetch_and_add(int size) {
  long before = 0;
  (void)size;
  ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &before, area[1], 1, 1);
}
static void lock_and_unlock(int size) {
  (void)size;
  ARMCI_Lock(0, 1);
  ARMCI_Unlock(0, 1);
}
static void barrier(int size) {
  (void)size;
  ARMCI_Barrier();
}

static void time_all(const char *what, operation *run, const int *sizes, int size_count) {
  for (int i = 0; i < size_count; i++) {
    double const us = time_of(run, sizes[i], 0);
    if (sizes[i] >= 65536)
      print(what, sizes[i], "GB/s", sizes[i] / us / 1e3);
    else
      print(what, sizes[i], "us", us);
  }
}

static void check(void) {
  for (int i = 0; i < LARGEST; i++)
    mine[i] = (char)(i * 7 + 3);
  if (me == 0) {
    put(LARGEST);
    memset(mine, 0, LARGEST);
    get(LARGEST);
    for (int i = 0; i < LARGEST; i++)
      REQUIRE(mine[i] == (char)(i * 7 + 3));
    double *const values = (double *)(void *)mine;
    for (int i = 0; i < 1000; i++)
      values[i] = i;
    put(8000);
    accumulate(8000);
    get(8000);
    for (int i = 0; i < 1000; i++)
      REQUIRE(values[i] == 2.0 * i);
  }
  ARMCI_Barrier();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  ARMCI_Init();
  me = armci_msg_me();
  count = armci_msg_nproc();
  REQUIRE(count >= 2 && count <= 4096);
  REQUIRE(ARMCI_Malloc((void **)area, AREA) == 0);
  mine = ARMCI_Malloc_local(LARGEST);
  memset(area[me], 0, AREA);
  memset(mine, 0, LARGEST);
  ARMCI_Create_mutexes(me == 1 ? 1 : 0);
  ARMCI_Barrier();
  check();
  static const int blocks[] = {8, 1024, 65536, LARGEST}, rows[] = {8192, 65536, 524288};
  time_all("put + fence", put, blocks, 4);
  time_all("get", get, blocks, 4);
  time_all("acc + fence", accumulate, blocks, 4);
  time_all("put of rows + fence", put_rows, rows, 3);
  time_all("get of rows", get_rows, rows, 3);
  time_all("acc of rows + fence", accumulate_rows, rows, 3);
  print("put of 64 blocks + fence", 65536, "us", time_of(put_blocks, 65536, 0));
  print("get of 64 blocks", 65536, "us", time_of(get_blocks, 65536, 0));
  print("put of words + fence", 8000, "us", time_of(put_words, 8000, 0));
  print("get of words", 8000, "us", time_of(get_words, 8000, 0));
  for (int i = 0; i < 1000; i++) {
    places_there[i] = area[1] + (size_t)PITCH * (size_t)i;
    places_here[i] = mine + 8 * i;
  }
  double const list_us = time_of(put_list, 8000, 0);
  if (is_list_there())
    print("put of a list + fence", 8000, "us", list_us);
  print("fetch and add", 0, "us", time_of(fetch_and_add, 0, 0));
  print("lock and unlock", 0, "us", time_of(lock_and_unlock, 0, 0));
  print("barrier", 0, "us", time_of(barrier, 0, 1));
  ARMCI_Destroy_mutexes();
  ARMCI_Free_local(mine);
  ARMCI_Free(area[me]);
  ARMCI_Finalize();
  MPI_Finalize();
  return 0;
}
