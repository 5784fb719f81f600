/* All reductions with all operations and types, with sizes from 0 to more than 1 MiB. */
#include "check.h"

enum { LARGE = (1 << 18) + 1, SIZES = 5 };
static const int sizes[SIZES] = {0, 1, 3, 1000, LARGE};

/* Small numbers of both signs; sums and products of a few are exact in all types. */
static int value_of(int rank, int index, const char *op) {
  if (strcmp(op, "*") == 0)
    return (index + rank) % 5 - 2;
  if (strncmp(op, "abs", 3) == 0)
    return (index * 7 + rank * 13) % 101 - 50;
  if (op[0] == '&' || op[0] == 'l' || op[0] == '|')
    return (index + rank) % 3;
  return (index * 7 + rank * 13) % 101 - 50;
}

static long long combine(long long a, long long b, const char *op) {
  if (op[0] == '+')
    return a + b;
  if (op[0] == '*')
    return a * b;
  if (strstr(op, "max") != NULL)
    return a > b ? a : b;
  if (strstr(op, "min") != NULL)
    return a < b ? a : b;
  if (strcmp(op, "&&") == 0 || strcmp(op, "land") == 0)
    return a && b;
  if (strcmp(op, "||") == 0 || strcmp(op, "lor") == 0)
    return a || b;
  return op[0] == '&' || strcmp(op, "band") == 0 ? (a & b) : (a | b);
}

static long long expected(const members *group, int index, const char *op) {
  int is_absolute = strncmp(op, "abs", 3) == 0;
  int is_truth =
      !strcmp(op, "&&") || !strcmp(op, "||") || !strcmp(op, "land") || !strcmp(op, "lor");
  long long result = 0;
  for (int i = 0; i < group->count; i++) {
    long long each = value_of(group->ranks[i], index, op);
    if (is_absolute && each < 0)
      each = -each;
    if (is_truth)
      each = each != 0;
    result = i == 0 ? each : combine(result, each, op);
  }
  /* A single rank has nothing to combine with, so MPI may leave its truth value unchanged. */
  return result;
}

static const char *const operations[] = {"+",
                                         "*",
                                         "max",
                                         "min",
                                         "absmax",
                                         "absmin",
                                         "or",
                                         "|",
                                         "bor",
                                         "&",
                                         "band",
                                         "&&",
                                         "land",
                                         "||",
                                         "lor"};
enum { ALL_TYPES = 6, OPERATIONS = sizeof operations / sizeof *operations };

enum {
  BY_LETTER,
  SCOPE_OF_ALL,
  REDUCE,
  REDUCE_MASTERS,
  NODE,
  REDUCE_NODE,
  CLUSTER,
  GROUP,
  GROUP_SCOPE,
  GROUP_NODE,
  FORMS
};

static ARMCI_Group even_group;

static members members_of(int form) {
  members even = even_members();
  if (form == NODE || form == REDUCE_NODE || form == CLUSTER)
    return node_members();
  if (form == GROUP_NODE)
    return on_this_node(&even);
  return form >= GROUP ? even : all_members();
}

#define DEFINE_TEST(LETTERS, ELEMENT, TYPE)                                        \
  static void call_##LETTERS(int form, ELEMENT *x, int n, char *op) {              \
    switch (form) {                                                                \
      case BY_LETTER:                                                              \
        armci_msg_##LETTERS##gop(x, n, op);                                        \
        break;                                                                     \
      case SCOPE_OF_ALL:                                                           \
        armci_msg_gop_scope(SCOPE_ALL, x, n, op, TYPE);                            \
        break;                                                                     \
      case REDUCE:                                                                 \
        armci_msg_reduce(x, n, op, TYPE);                                          \
        break;                                                                     \
      case REDUCE_MASTERS:                                                         \
        armci_msg_reduce_scope(SCOPE_MASTERS, x, n, op, TYPE);                     \
        break;                                                                     \
      case NODE:                                                                   \
        armci_msg_gop_scope(SCOPE_NODE, x, n, op, TYPE);                           \
        break;                                                                     \
      case REDUCE_NODE:                                                            \
        armci_msg_reduce_scope(SCOPE_NODE, x, n, op, TYPE);                        \
        break;                                                                     \
      case CLUSTER:                                                                \
        armci_msg_clus_##LETTERS##gop(x, n, op);                                   \
        break;                                                                     \
      case GROUP:                                                                  \
        armci_msg_group_##LETTERS##gop(x, n, op, &even_group);                     \
        break;                                                                     \
      case GROUP_SCOPE:                                                            \
        armci_msg_group_gop_scope(SCOPE_ALL, x, n, op, TYPE, &even_group);         \
        break;                                                                     \
      default:                                                                     \
        armci_msg_group_gop_scope(SCOPE_NODE, x, n, op, TYPE, &even_group);        \
        break;                                                                     \
    }                                                                              \
  }                                                                                \
  static void test_##LETTERS(int form, int n, const char *name) {                  \
    members group = members_of(form);                                              \
    char op[16];                                                                   \
    ELEMENT *x;                                                                    \
    if (!is_member(&group, me))                                                    \
      return;                                                                      \
    snprintf(op, sizeof op, "%s  ", name); /* padded, as in Fortran */             \
    x = malloc(((size_t)n + 1) * sizeof *x);                                       \
    for (int i = 0; i < n; i++)                                                    \
      x[i] = (ELEMENT)value_of(me, i, name);                                       \
    x[n] = (ELEMENT)77;                                                            \
    call_##LETTERS(form, x, n, op);                                                \
    for (int i = 0; i < n; i++) {                                                  \
      long long want = expected(&group, i, name);                                  \
      int is_truth = !strcmp(name, "&&") || !strcmp(name, "||") || name[0] == 'l'; \
      CHECK(is_truth ? (x[i] != 0) == (want != 0) : x[i] == (ELEMENT)want,         \
            "%s of %s, form %d, %d of %d: %g, not %lld",                           \
            name,                                                                  \
            #ELEMENT,                                                              \
            form,                                                                  \
            i,                                                                     \
            n,                                                                     \
            (double)x[i],                                                          \
            want);                                                                 \
    }                                                                              \
    CHECK(x[n] == (ELEMENT)77, "behind %d elements", n);                           \
    free(x);                                                                       \
  }

DEFINE_TEST(i, int, ARMCI_INT)
DEFINE_TEST(l, long, ARMCI_LONG)
DEFINE_TEST(ll, long long, ARMCI_LONG_LONG)
DEFINE_TEST(f, float, ARMCI_FLOAT)
DEFINE_TEST(d, double, ARMCI_DOUBLE)

static void test_extremes(void) {
  int least[2] = {-2147483647 - 1, -5};
  armci_msg_igop(least, 2, "absmax");
  CHECK(least[0] == -2147483647 - 1 && least[1] == 5, "%d %d", least[0], least[1]);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  even_group = make_even_group();
  for (int form = 0; form < FORMS; form++) {
    for (int size = 0; size < SIZES; size++) {
      int is_dear = sizes[size] == LARGE;
      for (int operation = 0; operation < OPERATIONS; operation++) {
        if (is_dear && (operation % 5 != 0 || (form != BY_LETTER && form != GROUP)))
          continue;
        test_i(form, sizes[size], operations[operation]);
        test_l(form, sizes[size], operations[operation]);
        test_ll(form, sizes[size], operations[operation]);
        if (operation >= ALL_TYPES)
          continue;
        test_f(form, sizes[size], operations[operation]);
        test_d(form, sizes[size], operations[operation]);
      }
    }
  }
  test_extremes();
  return end();
}
