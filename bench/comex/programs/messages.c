// Measures collective calls and messages of ARMCI by size, of all ranks or of ranks 0 and 1. Each
// figure is the median of several runs; received data are checked.
#include "measure.h"

enum { LARGEST = 2 << 20 };

static double *values;

static void broadcast(int size) {
  armci_msg_brdcst(values, size, 0);
}
static void sum(int size) {
  armci_msg_dgop(values, size / 8, (char *)"+");
}
static void bounce(int size) {
  int got = 0;
  if (me == 0) {
    armci_msg_snd(1, values, size, 1);
    armci_msg_rcv(2, values, size, &got, 1);
  } else if (me == 1) {
    armci_msg_rcv(1, values, size, &got, 0);
    armci_msg_snd(2, values, size, 0);
  }
}

static void check(void) {
  for (int size = 8; size <= LARGEST; size *= 512) {
    int const last = size / 8 - 1;
    for (int i = 0; i <= last; i++)
      values[i] = me + i;
    sum(size);
    for (int i = 0; i <= last; i++)
      REQUIRE(values[i] == count * (double)i + count * (count - 1) / 2.0);
    for (int i = 0; i <= last; i++)
      values[i] = me == 0 ? i : -1;
    broadcast(size);
    for (int i = 0; i <= last; i++)
      REQUIRE(values[i] == i);
  }
  for (int i = 0; i < LARGEST / 8; i++)
    values[i] = 0;  // sums of sums stay small
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  ARMCI_Init();
  me = armci_msg_me();
  count = armci_msg_nproc();
  REQUIRE(count >= 2);
  values = malloc(LARGEST);
  REQUIRE(values != NULL);
  check();
  static const int sizes[] = {8, 8192, LARGEST};
  for (int i = 0; i < 3; i++)
    print("bcast", sizes[i], "us", time_of(broadcast, sizes[i], 1));
  for (int i = 0; i < 3; i++)
    print("sum of doubles", sizes[i], "us", time_of(sum, sizes[i], 1));
  for (int i = 0; i < 3; i++)
    print("message there and back", sizes[i], "us", time_of(bounce, sizes[i], 1));
  free(values);
  ARMCI_Finalize();
  MPI_Finalize();
  return 0;
}
