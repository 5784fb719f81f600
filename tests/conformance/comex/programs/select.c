/* Selection by the least and greatest value among contributing ranks, with equal values and NaNs.
 */
#include <math.h>

#include "check.h"

#define PAYLOAD 40

typedef struct {
  union {
    int i;
    long l;
    long long ll;
    float f;
    double d;
  } value;
  int rank;
  char rest[PAYLOAD];
} record;

static const int types[] = {ARMCI_INT, ARMCI_LONG, ARMCI_LONG_LONG, ARMCI_FLOAT, ARMCI_DOUBLE};
enum { TYPES = 5, PATTERNS = 4 };

static double value_of(int rank, int pattern) {
  static const double offsets[PATTERNS] = {0, -3, 5, 0};
  if (pattern == 3)
    return 4.0;                                     /* equal values */
  return (rank * 5 + 3) % 7 - 3 + offsets[pattern]; /* of both signs */
}

static int contributes(int rank, int mask) {
  return (mask >> (rank % 4)) & 1;
}

static void set(record *made, int type, double value) {
  memset(made, 0, sizeof *made);
  switch (type) {
    case ARMCI_INT:
      made->value.i = (int)value;
      break;
    case ARMCI_LONG:
      made->value.l = (long)value;
      break;
    case ARMCI_LONG_LONG:
      made->value.ll = (long long)value;
      break;
    case ARMCI_FLOAT:
      made->value.f = (float)value;
      break;
    default:
      made->value.d = value;
      break;
  }
  made->rank = me;
  memset(made->rest, 'a' + me, sizeof made->rest);
}

static int winner(const members *group, int pattern, int mask, int is_max) {
  int best = -1;
  for (int i = 0; i < group->count; i++) {
    int rank = group->ranks[i];
    if (!contributes(rank, mask))
      continue;
    double difference = best < 0 ? 0 : value_of(rank, pattern) - value_of(best, pattern);
    if (best < 0 || (is_max ? difference > 0 : difference < 0))
      best = rank;
  }
  return best < 0 ? group->ranks[0] : best;
}

static void try_scope(int scope, const members *group) {
  for (int type = 0; type < TYPES; type++) {
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
      for (int mask = 0; mask < 16; mask++) {
        for (int is_max = 0; is_max < 2; is_max++) {
          record mine;
          int want = winner(group, pattern, mask, is_max);
          set(&mine, types[type], value_of(me, pattern));
          armci_msg_sel_scope(scope,
                              &mine,
                              sizeof mine,
                              is_max ? "max" : "min",
                              types[type],
                              contributes(me, mask));
          CHECK(mine.rank == want && mine.rest[0] == 'a' + want &&
                    mine.rest[PAYLOAD - 1] == 'a' + want,
                "type %d pattern %d mask %d %s: rank %d, not %d",
                type,
                pattern,
                mask,
                is_max ? "max" : "min",
                mine.rank,
                want);
        }
      }
    }
  }
}

static void try_specials(void) {
  record mine;
  set(&mine, ARMCI_DOUBLE, me == 0 ? NAN : -1.0 * me);
  armci_msg_sel(&mine, sizeof mine, "max", ARMCI_DOUBLE, 1);
  CHECK(mine.rank == (count > 1 ? 1 : 0), "%d", mine.rank);
  set(&mine, ARMCI_FLOAT, me == 0 ? -0.0 : 0.0);
  armci_msg_sel(&mine, sizeof mine, "max", ARMCI_FLOAT, 1);
  CHECK(mine.rank == 0, "%d", mine.rank);
  set(&mine, ARMCI_DOUBLE, me == count - 1 ? -INFINITY : -1e300);
  armci_msg_sel(&mine, sizeof mine, "min", ARMCI_DOUBLE, 1);
  CHECK(mine.rank == count - 1, "%d", mine.rank);
  set(&mine, ARMCI_DOUBLE, NAN);
  armci_msg_sel(&mine, sizeof mine, "min", ARMCI_DOUBLE, me == count - 1);
  CHECK(mine.rank == count - 1, "%d", mine.rank);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  members all = all_members(), node = node_members();
  try_scope(SCOPE_ALL, &all);
  try_scope(SCOPE_NODE, &node);
  try_specials();
  return end();
}
