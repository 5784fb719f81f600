/* All broadcast calls, from every rank, with sizes from 0 to more than 1 MiB. */
#include "check.h"

enum { LARGE = (1 << 20) + 3, SIZES = 4 };
static const int sizes[SIZES] = {0, 1, 1000, LARGE};
static unsigned char *buffer;

static void fill(int salt, int size) {
  for (int i = 0; i < size; i++)
    buffer[i] = (unsigned char)(i * 3 + salt * 17 + i / 256);
  buffer[size] = 0xee;
}

static void prepare(int root, int size) {
  fill(me == root ? root : 100 + me, size);
}

static void verify(int root, int size, int line) {
  for (int i = 0; i < size; i++) {
    CHECK(buffer[i] == (unsigned char)(i * 3 + root * 17 + i / 256),
          "line %d: byte %d of %d from %d",
          line,
          i,
          size,
          root);
  }
  CHECK(buffer[size] == 0xee, "line %d: behind %d bytes", line, size);
}

/* `root` as a rank of the world. */
#define TRY(ROOT, SIZE, CALL)         \
  do {                                \
    prepare((ROOT), (SIZE));          \
    CALL;                             \
    verify((ROOT), (SIZE), __LINE__); \
  } while (0)

int main(int argc, char **argv) {
  begin(&argc, &argv);
  members even = even_members(), node = node_members();
  ARMCI_Group group = make_even_group(), world;
  ARMCI_Group_get_world(&world);
  buffer = malloc(LARGE + 1);
  for (int i = 0; i < SIZES; i++) {
    int size = sizes[i];
    for (int root = 0; root < count; root++) {
      TRY(root, size, armci_msg_bcast(buffer, size, root));
      TRY(root, size, armci_msg_brdcst(buffer, size, root));
      TRY(root, size, armci_msg_bcast_scope(SCOPE_ALL, buffer, size, root));
      TRY(root, size, armci_msg_bcast_scope(SCOPE_MASTERS, buffer, size, root));
      TRY(root, size, armci_msg_group_bcast_scope(SCOPE_ALL, buffer, size, root, &world));
    }
    for (int root = 0; root < node.count; root++) {
      TRY(node.ranks[root], size, armci_msg_bcast_scope(SCOPE_NODE, buffer, size, root));
      TRY(node.ranks[root],
          size,
          armci_msg_group_bcast_scope(SCOPE_NODE, buffer, size, node.ranks[root], &world));
    }
    TRY(node.ranks[0], size, armci_msg_clus_brdcst(buffer, size));
    if (count > 2 && me > 0)
      TRY(1, size, armci_grp_clus_brdcst(buffer, size, 1, count - 1, &world));
    if (!is_member(&even, me))
      continue;
    ARMCI_Group_set_default(&group);
    for (int root = 0; root < even.count; root++) {
      TRY(even.ranks[root], size, armci_msg_bcast(buffer, size, root));
      TRY(even.ranks[root],
          size,
          armci_msg_group_bcast_scope(SCOPE_ALL, buffer, size, even.ranks[root], &group));
    }
    TRY(even.ranks[0], size, armci_grp_clus_brdcst(buffer, size, 0, even.count, &group));
    ARMCI_Group_set_default(&world);
  }
  free(buffer);
  return end();
}
