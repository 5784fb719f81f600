/* Broadcasts, sums, selections and barriers in the same random order on all ranks, which are not in
 * step with one another. Results are checked. */
#include <unistd.h>

#include "check.h"

enum { CALLS = 3000, LARGEST = 300000 }; /* doubles: an eighth of it */

static unsigned char *bytes;

static unsigned next(unsigned *state) {
  *state = *state * 1103515245u + 12345u;
  return *state >> 8;
}

static int size_of(unsigned *state) {
  switch (next(state) % 8) {
    case 0:
      return (int)(next(state) % LARGEST);
    case 1:
      return (int)(next(state) % 9000);
    case 2:
      return 0;
    default:
      return (int)(next(state) % 64);
  }
}

static void broadcast(int call, int size, int root) {
  for (int i = 0; i < size; i++)
    bytes[i] = (unsigned char)(me == root ? i * 3 + i / 256 + call : 0xaa);
  bytes[size] = 0xee;
  armci_msg_bcast(bytes, size, root);
  for (int i = 0; i < size; i++) {
    CHECK(bytes[i] == (unsigned char)(i * 3 + i / 256 + call),
          "call %d: byte %d of %d from %d",
          call,
          i,
          size,
          root);
  }
  CHECK(bytes[size] == 0xee, "call %d: behind %d bytes", call, size);
}

static void sum(int call, int elements) {
  double *values = (double *)bytes;
  for (int i = 0; i < elements; i++)
    values[i] = call + i + me;
  armci_msg_dgop(values, elements, (char *)"+");
  for (int i = 0; i < elements; i++) {
    CHECK(values[i] == count * (double)(call + i) + count * (count - 1) / 2.0,
          "call %d: element %d of %d",
          call,
          i,
          elements);
  }
}

static void select_one(int call) {
  int pair[2] = {(me + call) % count, me};
  armci_msg_sel_scope(SCOPE_ALL, pair, sizeof pair, (char *)"max", ARMCI_INT, 1);
  CHECK(pair[0] == count - 1 && (pair[1] + call) % count == count - 1,
        "call %d: %d of %d",
        call,
        pair[0],
        pair[1]);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  bytes = malloc(LARGEST + 8);
  CHECK(bytes != NULL, "memory");
  unsigned state = 20261123, mine = 77 + (unsigned)me;
  for (int call = 0; call < CALLS; call++) {
    unsigned const what = next(&state) % 16;
    int const size = size_of(&state), root = (int)(next(&state) % (unsigned)count);
    if (what < 11)
      broadcast(call, size, call / 300 % 2 == 0 ? root : 0);
    else if (what < 14)
      sum(call, size / 8);
    else if (what == 14)
      select_one(call);
    else
      armci_msg_barrier();
    if (next(&mine) % 100 == 0)
      usleep(next(&mine) % 300);
  }
  free(bytes);
  return end();
}
