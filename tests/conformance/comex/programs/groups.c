/* Groups, the default group, memory of groups, and nodes. */
#include "check.h"

static void even_ones(void) {
  members even = even_members();
  ARMCI_Group group = make_even_group(), world, other, child;
  int rank = -1, size = -1;
  void *places[64] = {NULL};
  ARMCI_Group_get_world(&world);
  ARMCI_Group_get_default(&other);
  CHECK(world == 0 && other == world, "%d %d", world, other);
  if (is_member(&even, me)) {
    ARMCI_Group_size(&group, &size);
    CHECK(ARMCI_Group_rank(&group, &rank) == 0 && size == even.count && even.ranks[rank] == me,
          "%d of %d",
          rank,
          size);
    for (int i = 0; i < size; i++)
      CHECK(ARMCI_Absolute_id(&group, i) == even.ranks[i], "%d", i);
    MPI_Comm communicator = armci_group_comm(&group);
    MPI_Comm_rank(communicator, &size);
    CHECK(size == rank, "%d in its communicator", size);
    CHECK(ARMCI_Malloc_group(places, 100 + me, &group) == 0, "memory");
    memset(places[rank], me, (size_t)(100 + me));
    armci_msg_group_barrier(&group);
    for (int i = 0; i < even.count; i++) {
      char last = -1;
      CHECK(
          ARMCI_Get((char *)places[i] + 99, &last, 1, even.ranks[i]) == 0 && last == even.ranks[i],
          "%d of %d",
          last,
          i);
    }
    ARMCI_GroupFence(&group);
    armci_msg_group_barrier(&group);
    CHECK(ARMCI_Free_group(places[rank], &group) == 0, "free");
    ARMCI_Group_set_default(&group);
    ARMCI_Group_create(1, &rank, &child); /* numbered in the default group */
    ARMCI_Group_get_default(&other);
    CHECK(other == group && ARMCI_Absolute_id(&child, 0) == me, "%d", other);
    ARMCI_Group_free(&child);
    ARMCI_Group_set_default(&world);
    ARMCI_Group_create_child(1, &rank, &child, &group);
    CHECK(ARMCI_Absolute_id(&child, 0) == me, "child");
    ARMCI_Group_free(&child);
    ARMCI_Group_free(&group);
  }
  armci_msg_barrier();
}

/* A rank outside of a group may create it with the others, query it and free it. */
static void seen_from_outside(void) {
  int first = 0, rank = 77, size = 0;
  ARMCI_Group group;
  ARMCI_Group_create(1, &first, &group);
  ARMCI_Group_size(&group, &size);
  CHECK(size == 1 && ARMCI_Group_rank(&group, &rank) == 0 && rank == (me == 0 ? 0 : MPI_UNDEFINED),
        "%d of %d",
        rank,
        size);
  CHECK(ARMCI_Absolute_id(&group, 0) == 0, "rank 0");
  ARMCI_Group_free(&group);
}

static void many(void) {
  for (int round = 0; round < 40; round++) {
    members all = all_members();
    ARMCI_Group group;
    int sum = 1;
    ARMCI_Group_create(all.count, all.ranks, &group);
    armci_msg_group_igop(&sum, 1, "+", &group);
    CHECK(sum == count, "%d", sum);
    ARMCI_Group_free(&group);
  }
}

/* Memory of different sizes, including 0, over the default group. */
static void memory_of_any_size(void) {
  void *places[64];
  long value = 0;
  CHECK(ARMCI_Malloc(places, me % 2 == 0 ? (armci_size_t)sizeof(long) : 0) == 0, "memory");
  for (int i = 0; i < count; i++)
    CHECK((places[i] == NULL) == (i % 2 == 1), "%p of %d", places[i], i);
  if (me % 2 == 0)
    *(long *)places[me] = me + 1;
  armci_msg_barrier();
  for (int i = 0; i < count; i += 2) {
    CHECK(ARMCI_GetValueLong(places[i], i) == i + 1, "of %d", i);
    CHECK(ARMCI_Get(places[i], &value, sizeof value, i) == 0 && value == i + 1,
          "%ld of %d",
          value,
          i);
  }
  armci_msg_barrier();
  CHECK(ARMCI_Free(places[me]) == 0, "free");
}

static void nodes(void) {
  int node_count = armci_domain_count(ARMCI_DOMAIN_SMP), ranks_seen = 0;
  members node = node_members();
  CHECK(armci_domain_id(ARMCI_DOMAIN_SMP, me) == armci_domain_my_id(ARMCI_DOMAIN_SMP), "mine");
  CHECK(armci_domain_nprocs(ARMCI_DOMAIN_SMP, armci_domain_my_id(ARMCI_DOMAIN_SMP)) == node.count,
        "%d",
        node.count);
  for (int i = 0; i < node.count; i++) {
    CHECK(armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, armci_domain_my_id(ARMCI_DOMAIN_SMP), i) ==
              node.ranks[i],
          "%d",
          i);
  }
  for (int id = 0; id < node_count; id++) {
    int size = armci_domain_nprocs(ARMCI_DOMAIN_SMP, id);
    ranks_seen += size;
    for (int i = 0; i < size; i++) {
      int rank = armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, id, i);
      CHECK(armci_domain_id(ARMCI_DOMAIN_SMP, rank) == id, "%d is not of %d", rank, id);
    }
  }
  CHECK(ranks_seen == count, "%d", ranks_seen);
  for (int i = 0; i < count; i++) {
    int is_same = node_of(i) == node_of(me);
    CHECK(ARMCI_Same_node(i) == is_same && armci_domain_same_id(ARMCI_DOMAIN_SMP, i) == is_same &&
              armci_sameclusnode(i) == is_same,
          "%d",
          i);
  }
}

int main(int argc, char **argv) {
  CHECK(ARMCI_Initialized() == 0, "before");
  begin(&argc, &argv);
  CHECK(ARMCI_Initialized() == 1, "after");
  int size = 0;
  MPI_Comm_size(ARMCI_COMM_WORLD, &size);
  CHECK(size == count, "%d", size);
  even_ones();
  seen_from_outside();
  many();
  memory_of_any_size();
  nodes();
  return end();
}
