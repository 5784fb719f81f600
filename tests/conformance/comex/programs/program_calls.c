/* MPI calls that programs make besides comex while memory is swapped. MPI must not write to
 * swapped-out memory, and waiting calls must let others run. The first argument is the test to run.
 * There are two processes, and the memory of one leaves no space for the other's. */
#include <comex.h>

#include "check.h"

#define IS(CONDITION) CHECK(CONDITION, "%s", part)

enum { SIZE = 24 << 20, COUNT = 1000, AT = 8 << 20 };
static const char *part;
static char *memory;
static char *factors; /* in swappable memory */

/* Notifies the other rank, which then uses all memory of the budget. */
static void say(void) {
  int word = 0;
  MPI_Send(&word, 1, MPI_INT, 1 - me, 1, MPI_COMM_WORLD);
}

static void await_and_use_memory(void) {
  int word = 0;
  MPI_Recv(&word, 1, MPI_INT, 1 - me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  memset(memory, 5, SIZE);
}

static int *numbers(void) {
  static int made[COUNT];
  for (int i = 0; i < COUNT; i++)
    made[i] = i;
  return made;
}

static int wrong(const int *values) {
  int found = 0;
  for (int i = 0; i < COUNT; i++)
    found += values[i] != i;
  return found;
}

/* A datatype that contains the address. */
static void bottom(void) {
  int *const into = (int *)(memory + AT);
  if (me == 0) {
    MPI_Aint at;
    MPI_Datatype type;
    int count = COUNT;
    MPI_Request request;
    MPI_Get_address(into, &at);
    MPI_Type_create_hindexed(1, &count, &at, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Irecv(MPI_BOTTOM, 1, type, 1, 7, MPI_COMM_WORLD, &request);
    say();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    IS(wrong(into) == 0);
    MPI_Type_free(&type);
  } else {
    await_and_use_memory();
    MPI_Send(numbers(), COUNT, MPI_INT, 0, 7, MPI_COMM_WORLD);
  }
}

/* Results other than messages. */
static void results(void) {
  int *const index = (int *)(memory + AT);
  MPI_Status *const about = (MPI_Status *)(memory + AT / 2);
  int word = 0;
  if (me == 0) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(&word, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[1]);
    say();
    *index = -5;
    MPI_Waitany(2, requests, index, about);
    IS(*index == 1 && about->MPI_TAG == 7 && about->MPI_SOURCE == 1 && word == 3);
  } else {
    await_and_use_memory();
    word = 3;
    MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
  }
}

/* A function of the program that MPI calls. */
static void add(void *in, void *out, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++)
    ((int *)out)[i] += ((int *)in)[i] * factors[i];
}

static void function(void) {
  int mine[8] = {1, 2, 3, 4, 5, 6, 7, 8}, all[8] = {0};
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  factors = memory + AT;
  if (me == 0) {
    memset(memory, 1, SIZE);
    say();
  } else {
    await_and_use_memory();
    memset(memory, 1, SIZE);
  }
  MPI_Allreduce(mine, all, 8, MPI_INT, op, MPI_COMM_WORLD);
  for (int i = 0; i < 8; i++)
    IS(all[i] == 2 * mine[i]);
  MPI_Op_free(&op);
}

/* No collective waits for more ranks than it needs. */
static void order(void) {
  int word = me == 0 ? 4 : 0;
  if (me == 0) {
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    say();
  } else {
    await_and_use_memory();
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  IS(word == 4);
}

static void collectives(void) {
  int sent[2] = {me, me + 10}, got[2] = {-1, -1}, counts[2] = {1, 1}, places[2] = {0, 4},
      periods[1] = {1}, sizes[1] = {2};
  MPI_Aint far_places[2] = {0, 4};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Comm ring, copy, graph;
  MPI_Request request;
  MPI_Alltoallw(sent, counts, places, types, got, counts, places, types, MPI_COMM_WORLD);
  IS(got[0] == 10 * me && got[1] == 1 + 10 * me);
  MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &ring);
  MPI_Neighbor_allgather(&me, 1, MPI_INT, got, 1, MPI_INT, ring);
  IS(got[0] == 1 - me && got[1] == 1 - me);
  MPI_Neighbor_alltoallw(sent, counts, far_places, types, got, counts, far_places, types, ring);
  IS(got[0] % 10 == 1 - me && got[1] % 10 == 1 - me);
  MPI_Comm_idup(ring, &copy, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int other = 1 - me, one = 1;
  MPI_Dist_graph_create_adjacent(copy, 1, &other, &one, 1, &other, &one, MPI_INFO_NULL, 0, &graph);
  MPI_Neighbor_alltoall(&sent[1], 1, MPI_INT, got, 1, MPI_INT, graph);
  IS(got[0] == other + 10);
  MPI_Sendrecv(
      sent, 1, MPI_INT, other, 3, got, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  IS(got[0] == other);
  MPI_Comm_free(&graph);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&ring);
}

/* Memory that MPI uses until a call that does not name it completes. */
static void windows(void) {
  int *base, *const mine = (int *)(memory + AT);
  MPI_Win window;
  MPI_Win_allocate(
      COUNT * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Win_fence(0, window);
  if (me == 0) {
    memcpy(mine, numbers(), COUNT * sizeof *mine);
    MPI_Put(mine, COUNT, MPI_INT, 1, 0, COUNT, MPI_INT, window);
    say();
  } else {
    await_and_use_memory();
  }
  MPI_Win_fence(0, window);
  if (me == 1)
    IS(wrong(base) == 0);
  MPI_Win_lock_all(0, window);
  if (me == 0) {
    memset(mine, 0, COUNT * sizeof *mine);
    MPI_Get(mine, COUNT, MPI_INT, 1, 0, COUNT, MPI_INT, window);
    say();
    MPI_Win_flush(1, window);
    IS(wrong(mine) == 0);
  } else {
    await_and_use_memory();
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Win_create(memory, AT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_free(&window);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_attach(window, memory, AT);
  MPI_Win_detach(window, memory);
  MPI_Win_free(&window);
}

static void files(const char *name) {
  int *const mine = (int *)(memory + AT);
  MPI_File file;
  MPI_Request request;
  memcpy(mine, numbers(), COUNT * sizeof *mine);
  IS(MPI_File_open(MPI_COMM_WORLD,
                   name,
                   MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL,
                   &file) == MPI_SUCCESS);
  MPI_File_write_at_all(
      file, me * COUNT * (MPI_Offset)sizeof *mine, mine, COUNT, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  memset(mine, 0, COUNT * sizeof *mine);
  MPI_File_iread_at(
      file, (1 - me) * COUNT * (MPI_Offset)sizeof *mine, mine, COUNT, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  IS(wrong(mine) == 0);
  memset(mine, 0, COUNT * sizeof *mine);
  MPI_File_read_at_all_begin(file, 0, mine, COUNT, MPI_INT);
  MPI_File_read_at_all_end(file, mine, MPI_STATUS_IGNORE);
  IS(wrong(mine) == 0);
  MPI_File_close(&file);
}

/* After MPI has ended its use, both ranks can be swapped out again. */
static void returned(void) {
  MPI_Request request;
  int size;
  void *taken;
  MPI_Recv_init(memory + AT, COUNT, MPI_INT, 1 - me, 9, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  MPI_Buffer_attach(memory, AT);
  MPI_Buffer_detach(&taken, &size);
  IS(taken == (void *)memory && size == AT);
  for (int i = 0; i < 3; i++) {
    for (int turn = 0; turn < 2; turn++) {
      if (me == turn)
        memset(memory, i, SIZE);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  comex_init();
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  part = argc > 1 ? argv[1] : "";
  /* One after another, because memory does not suffice for both. */
  for (int turn = 0; turn < 2; turn++) {
    if (turn == me) {
      memory = malloc(SIZE);
      IS(memory != NULL);
      memset(memory, me + 1, SIZE);
    }
    comex_barrier(COMEX_GROUP_WORLD);
  }
  if (strcmp(part, "bottom") == 0)
    bottom();
  if (strcmp(part, "results") == 0)
    results();
  if (strcmp(part, "function") == 0)
    function();
  if (strcmp(part, "order") == 0)
    order();
  if (strcmp(part, "collectives") == 0)
    collectives();
  if (strcmp(part, "windows") == 0)
    windows();
  if (strcmp(part, "files") == 0)
    files(argv[2]);
  if (strcmp(part, "returned") == 0)
    returned();
  comex_barrier(COMEX_GROUP_WORLD);
  free(memory);
  comex_finalize();
  if (me == 0)
    printf("passed\n");
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
