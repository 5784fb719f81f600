/* Messages between two ranks, notifications, exchanged addresses, and trees. */
#include "check.h"

enum { LARGE = 3 << 20, SIZES = 4 };
static const int sizes[SIZES] = {0, 1, 1000, LARGE};

static void around_a_ring(void) {
  char *out = malloc(LARGE), *in = malloc(LARGE);
  int next = (me + 1) % count, previous = (me + count - 1) % count;
  for (int i = 0; i < SIZES; i++) {
    int received = -1;
    memset(out, 'a' + me + i, (size_t)sizes[i]);
    memset(in, 0, LARGE);
    /* Large messages need a receiver, so even ranks send first. */
    if (me % 2 == 0)
      armci_msg_snd(10 + i, out, sizes[i], next);
    armci_msg_rcv(10 + i, in, LARGE, i == 1 ? NULL : &received, previous);
    if (me % 2 == 1)
      armci_msg_snd(10 + i, out, sizes[i], next);
    CHECK(i == 1 || received == sizes[i], "%d of %d", received, sizes[i]);
    for (int k = 0; k < sizes[i]; k++)
      CHECK(in[k] == 'a' + previous + i, "byte %d", k);
    armci_msg_barrier();
  }
  free(out);
  free(in);
}

static void to_itself(void) {
  int first = 100 + me, second = 200 + me, in = 0, size = 0;
  armci_msg_snd(5, &first, sizeof first, me);
  armci_msg_snd(5, &second, sizeof second, me);
  first = 0;
  second = 0; /* the messages were copied */
  armci_msg_rcv(5, &in, sizeof in, &size, me);
  CHECK(in == 100 + me && size == sizeof in, "%d", in);
  CHECK(armci_msg_rcvany(5, &in, sizeof in, &size) == me && in == 200 + me, "%d", in);
  char *large = malloc(LARGE);
  memset(large, 'x', LARGE);
  armci_msg_snd(6, large, LARGE, me);
  memset(large, 'y', LARGE);
  armci_msg_rcv(6, large, LARGE, &size, me);
  CHECK(size == LARGE && large[0] == 'x' && large[LARGE - 1] == 'x',
        "%c %c",
        large[0],
        large[LARGE - 1]);
  free(large);
}

static void from_any(void) {
  if (me == 0) {
    int seen[64] = {0};
    for (int i = 1; i < count; i++) {
      int value = -1, size = 0, sender = armci_msg_rcvany(7, &value, sizeof value, &size);
      CHECK(value == sender * 11 && size == sizeof value && !seen[sender]++,
            "%d from %d",
            value,
            sender);
    }
  } else {
    int value = me * 11;
    armci_msg_snd(7, &value, sizeof value, 0);
  }
  armci_msg_barrier();
}

static void in_order_of_tags(void) {
  int value;
  if (count < 2 || me > 1)
    return;
  for (int tag = 0; tag < 20; tag++) {
    if (me == 0)
      armci_msg_snd(tag, &tag, sizeof tag, 1);
  }
  for (int tag = 19; me == 1 && tag >= 0; tag--) {
    armci_msg_rcv(tag, &value, sizeof value, NULL, 0);
    CHECK(value == tag, "%d", value);
  }
}

/* Each rank puts to the next rank and notifies it, repeatedly. */
static void notifications(void) {
  enum { LENGTH = 1000, ROUNDS = 50 };
  void *places[64];
  int next = (me + 1) % count, previous = (me + count - 1) % count;
  CHECK(ARMCI_Malloc(places, LENGTH * (armci_size_t)sizeof(int)) == 0, "memory");
  int *mine = places[me], out[LENGTH];
  armci_msg_barrier();
  for (int round = 1; round <= ROUNDS; round++) {
    int told = 0;
    for (int i = 0; i < LENGTH; i++)
      out[i] = round * 1000 + me;
    CHECK(ARMCI_Put(out, places[next], sizeof out, next) == 0, "put");
    CHECK(armci_notify(next) == round, "round %d", round);
    CHECK(armci_notify_wait(previous, &told) == round && told == round,
          "%d in round %d",
          told,
          round);
    for (int i = 0; i < LENGTH; i++)
      CHECK(mine[i] == round * 1000 + previous, "%d at %d in round %d", mine[i], i, round);
    armci_msg_barrier();
  }
  CHECK(ARMCI_Free(mine) == 0, "free");
}

static void addresses(void) {
  void *all[64] = {NULL}, *group_all[64] = {NULL};
  members even = even_members();
  ARMCI_Group group = make_even_group();
  all[me] = (char *)0 + 0x7f0000001000 + me;
  armci_exchange_address(all, count);
  for (int i = 0; i < count; i++)
    CHECK(all[i] == (char *)0 + 0x7f0000001000 + i, "%p of %d", all[i], i);
  if (!is_member(&even, me))
    return;
  int rank = -1;
  CHECK(ARMCI_Group_rank(&group, &rank) == 0, "rank");
  group_all[rank] = (char *)0 + 0x1000 + me;
  armci_exchange_address_grp(group_all, even.count, &group);
  for (int i = 0; i < even.count; i++)
    CHECK(group_all[i] == (char *)0 + 0x1000 + even.ranks[i], "%p of %d", group_all[i], i);
}

static void trees(int scope, const members *ranks) {
  int root, up, left, right, place = -1;
  armci_msg_bintree(scope, &root, &up, &left, &right);
  CHECK(root == ranks->ranks[0], "root %d", root);
  for (int i = 0; i < ranks->count; i++) {
    if (ranks->ranks[i] == me)
      place = i;
  }
  int want_left = place >= 0 && 2 * place + 1 < ranks->count ? ranks->ranks[2 * place + 1] : -1;
  int want_right = place >= 0 && 2 * place + 2 < ranks->count ? ranks->ranks[2 * place + 2] : -1;
  int want_up = place > 0 ? ranks->ranks[(place - 1) / 2] : -1;
  CHECK(up == want_up && left == want_left && right == want_right,
        "scope %d: %d %d %d",
        scope,
        up,
        left,
        right);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  if (count % 2 == 0 || count == 1) {
    if (count > 1)
      around_a_ring();
  }
  to_itself();
  from_any();
  in_order_of_tags();
  if (count > 1)
    notifications();
  addresses();
  members all = all_members(), node = node_members(), masters = {{0}, 0};
  for (int i = 0; i < count; i++) {
    int is_first = 1;
    for (int k = 0; k < i; k++)
      is_first &= node_of(k) != node_of(i);
    if (is_first)
      masters.ranks[masters.count++] = i;
  }
  trees(SCOPE_ALL, &all);
  trees(SCOPE_NODE, &node);
  trees(SCOPE_MASTERS, &masters);
  return end();
}
