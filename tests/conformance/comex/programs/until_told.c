/* Ranks with swappable memory repeat barriers until the file in the first argument exists. */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  void *places[64];
  int is_over = 0, size = 1 << 20;
  begin(&argc, &argv);
  CHECK(argc == 2 && count <= 64, "usage: until_told FILE");
  CHECK(ARMCI_Malloc(places, size) == 0, "%d bytes", size);
  memset(places[me], me, (size_t)size);
  while (!is_over) {
    usleep(20000);
    is_over = access(argv[1], F_OK) == 0;
    armci_msg_bcast(&is_over, sizeof is_over, 0);
  }
  ARMCI_Free(places[me]);
  return end();
}
