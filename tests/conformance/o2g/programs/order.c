// Messages between two ranks do not overtake one another, under wildcards, directed receives and
// mixtures of both.
#include "check.h"

enum { COUNT = 200, TAGS = 4 };

// Every other rank sends COUNT numbered messages with tags in turn; sizes change between eager and
// large.
static void send_numbered(void) {
  static int data[COUNT][4096];
  MPI_Request requests[COUNT];
  for (int i = 0; i < COUNT; i++) {
    data[i][0] = i;
    data[i][4095] = ~i;
    MPI_Isend(data[i], i % 3 == 0 ? 4096 : 1, MPI_INT, 0, i % TAGS, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
}

static void check_size(const MPI_Status *status, const int *data) {
  int got = 0;
  MPI_Get_count(status, MPI_INT, &got);
  REQUIRE(got == (data[0] % 3 == 0 ? 4096 : 1));
  if (got > 1)
    REQUIRE(data[4095] == ~data[0]);
}

static void receive_any(void) {
  static int data[4096];
  int const others = rank_count() - 1;
  int *const next = allocate(sizeof(int) * (size_t)(others + 1));
  for (int i = 0; i < COUNT * others; i++) {
    MPI_Status status;
    MPI_Recv(data, 4096, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    REQUIRE(data[0] == next[status.MPI_SOURCE]++);
    REQUIRE(status.MPI_TAG == data[0] % TAGS);
    check_size(&status, data);
  }
  free(next);
}

// By tag from any source: within one source and tag the numbers rise by TAGS.
static void receive_by_tag(void) {
  static int data[4096];
  int const others = rank_count() - 1;
  for (int tag = TAGS - 1; tag >= 0; tag--) {
    int *const next = allocate(sizeof(int) * (size_t)(others + 1));
    for (int i = 0; i < COUNT / TAGS * others; i++) {
      MPI_Status status;
      MPI_Recv(data, 4096, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
      REQUIRE(status.MPI_TAG == tag);
      REQUIRE(data[0] == tag + TAGS * next[status.MPI_SOURCE]++);
      check_size(&status, data);
    }
    free(next);
  }
}

// Posted first: receives complete with the messages in the order in which both were given.
static void receive_posted(void) {
  int const others = rank_count() - 1;
  static int data[COUNT][4096];
  MPI_Request requests[COUNT];
  for (int source = 1; source <= others; source++) {
    for (int i = 0; i < COUNT; i++) {
      int const tag = i % 2 ? MPI_ANY_TAG : i % TAGS;
      MPI_Irecv(data[i], 4096, MPI_INT, source, tag, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Status statuses[COUNT];
    MPI_Waitall(COUNT, requests, statuses);
    for (int i = 0; i < COUNT; i++) {
      REQUIRE(data[i][0] == i);
      REQUIRE(statuses[i].MPI_SOURCE == source && statuses[i].MPI_TAG == i % TAGS);
      check_size(&statuses[i], data[i]);
    }
  }
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  void (*const kinds[])(void) = {receive_any, receive_by_tag, receive_posted};
  for (int kind = 0; kind < 3; kind++) {
    if (own_rank() == 0)
      kinds[kind]();
    else
      send_numbered();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
