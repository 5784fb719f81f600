/* check.h: shared parts of the programs of this folder. One file of each program includes it. */
#ifndef ARMCI_CHECK_H
#define ARMCI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "armci.h"
#include "message.h"

static int me, count;

/* A condition that must be true on every rank; the other arguments are printed where it is false.
 */
#define CHECK(CONDITION, ...)                                                            \
  do {                                                                                   \
    if (CONDITION)                                                                       \
      break;                                                                             \
    fprintf(stderr, "%s:%d: rank %d: not so: %s: ", __FILE__, __LINE__, me, #CONDITION); \
    fprintf(stderr, __VA_ARGS__);                                                        \
    fprintf(stderr, "\n");                                                               \
    MPI_Abort(MPI_COMM_WORLD, 3);                                                        \
  } while (0)

/* Simulated nodes. TEST_NODES="0 1 0" means that ranks 0 and 2 were started on one node and rank 1
 * on another. ARMCI's nodes are sets of consecutive ranks, so these are three. */
static inline int node_of(int rank) {
  const char *nodes = getenv("TEST_NODES");
  int node = 0;
  if (nodes == NULL || *nodes == 0)
    return 0;
  for (int i = 1; i <= rank; i++)
    node += nodes[2 * i] != nodes[2 * i - 2];
  return node;
}

static inline void begin(int *argc, char ***argv) {
  armci_msg_init(argc, argv);
  CHECK(ARMCI_Init_args(argc, argv) == 0, "ARMCI_Init_args");
  me = armci_msg_me();
  count = armci_msg_nproc();
}

static inline int end(void) {
  armci_msg_barrier();
  ARMCI_Finalize();
  armci_msg_finalize();
  if (me == 0)
    printf("passed\n");
  return 0;
}

/* Ranks in the order of the participants. */
typedef struct {
  int ranks[64];
  int count;
} members;

static inline members all_members(void) {
  members found = {{0}, count};
  for (int i = 0; i < count; i++)
    found.ranks[i] = i;
  return found;
}

static inline members node_members(void) {
  members found = {{0}, 0};
  for (int i = 0; i < count; i++) {
    if (node_of(i) == node_of(me))
      found.ranks[found.count++] = i;
  }
  return found;
}

/* The even ranks, the last one first. */
static inline members even_members(void) {
  members found = {{0}, 0};
  for (int i = count - 1; i >= 0; i--) {
    if (i % 2 == 0)
      found.ranks[found.count++] = i;
  }
  return found;
}

static inline int is_member(const members *group, int rank) {
  for (int i = 0; i < group->count; i++) {
    if (group->ranks[i] == rank)
      return 1;
  }
  return 0;
}

static inline members on_this_node(const members *group) {
  members found = {{0}, 0};
  for (int i = 0; i < group->count; i++) {
    if (node_of(group->ranks[i]) == node_of(me))
      found.ranks[found.count++] = group->ranks[i];
  }
  return found;
}

/* The group of the even ranks; only those call. */
static inline ARMCI_Group make_even_group(void) {
  members even = even_members();
  ARMCI_Group group = -1;
  if (is_member(&even, me))
    ARMCI_Group_create(even.count, even.ranks, &group);
  return group;
}

#endif
