/* Interposes between ARMCI_x and PARMCI_x, as profiling libraries do. */
#include "check.h"
#include "parmci.h"

static int puts_seen, barriers_seen;

int ARMCI_Put(void *src, void *dst, int bytes, int proc) {
  puts_seen++;
  return PARMCI_Put(src, dst, bytes, proc);
}

void armci_msg_barrier(void) {
  barriers_seen++;
  parmci_msg_barrier();
}

int main(int argc, char **argv) {
  void *places[64];
  int value = 5;
  begin(&argc, &argv);
  CHECK(PARMCI_Malloc(places, sizeof value) == 0, "memory");
  armci_msg_barrier();
  CHECK(ARMCI_Put(&value, places[me], sizeof value, me) == 0 && *(int *)places[me] == 5, "put");
  CHECK(ARMCI_PutValueInt(6, places[me], me) == 0 && PARMCI_GetValueInt(places[me], me) == 6,
        "value");
  CHECK(puts_seen == 1 && barriers_seen == 1, "%d %d", puts_seen, barriers_seen);
  CHECK(ARMCI_Free(places[me]) == 0, "free");
  return end();
}
