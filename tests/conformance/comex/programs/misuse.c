/* Invalid calls, selected by name. All ranks make a collective call; the last rank makes any other.
 * The job must end with a line that describes the error. In the cases that begin with `returns` the
 * call prints the line and returns. */
#include <comex.h>

#include "check.h"
#include "iterator.h"

static void refused(int status) {
  CHECK(status != 0, "it was taken");
  if (me == count - 1)
    fprintf(stderr, "refused\n");
}

static void run(const char *what) {
  char bytes[64] = "";
  int number = 1, size = 0, four[4] = {1, 1, 1, 1}, none[2] = {1, 1}, bad[2] = {-8, 1};
  ARMCI_Group group = 77;
  stride_info_t iterator;
#define CASE(NAME, ...)          \
  if (strcmp(what, NAME) == 0) { \
    __VA_ARGS__;                 \
    return;                      \
  }
  CASE("operation", armci_msg_igop(&number, 1, "-"))
  CASE("operation_null", armci_msg_igop(&number, 1, NULL))
  CASE("operation_float", double d = 1; armci_msg_dgop(&d, 1, "or"))
  CASE("type", armci_msg_gop_scope(SCOPE_ALL, &number, 1, "+", 5))
  CASE("scope", armci_msg_gop_scope(1, &number, 1, "+", ARMCI_INT))
  CASE("count", armci_msg_igop(&number, -1, "+"))
  CASE("null", armci_msg_igop(NULL, 1, "+"))
  CASE("select_operation", armci_msg_sel(bytes, 64, "sum", ARMCI_INT, 1))
  CASE("select_size", armci_msg_sel(bytes, 2, "min", ARMCI_INT, 1))
  CASE("select_type", armci_msg_sel(bytes, 64, "min", 0, 1))
  CASE("root", armci_msg_bcast(bytes, 64, count))
  CASE("bcast_size", armci_msg_bcast(bytes, -1, 0))
  CASE("bcast_null", armci_msg_bcast(NULL, 1, 0))
  CASE("bcast_scope", armci_msg_bcast_scope(0, bytes, 1, 0))
  CASE("bcast_sizes", armci_msg_bcast(bytes, me == 0 ? 8 : 16, 0))
  CASE("bcast_barrier", if (me == 0) armci_msg_barrier(); else armci_msg_bcast(bytes, 8, 0))
  CASE("bcast_unread", for (int i = 0; me == 0 && i < 1000; i++) armci_msg_bcast(bytes, 8, 0))
  CASE("bcast_roots", armci_msg_bcast(bytes, 8, 1 - me))
  CASE("reduce_sizes", armci_msg_igop(four, me == 0 ? 4 : 3, "+"))
  CASE("reduce_operations", armci_msg_igop(&number, 1, me == 0 ? "+" : "max"))
  CASE("reduce_types",
       armci_msg_gop_scope(SCOPE_ALL, four, me == 0 ? 2 : 1, "+", me == 0 ? ARMCI_INT : ARMCI_LONG))
  CASE("different", if (me == 0) armci_msg_bcast(&number, sizeof number, 0);
       else armci_msg_igop(&number, 1, "+"))
  CASE("group_root", ARMCI_Group_create(1, &me, &group);
       armci_msg_group_bcast_scope(SCOPE_ALL, bytes, 1, count, &group))
  CASE("group", armci_msg_group_igop(&number, 1, "+", &group))
  CASE("group_null", armci_msg_group_barrier(NULL))
  CASE("group_rank", number = count; ARMCI_Group_create(1, &number, &group))
  CASE("absolute", ARMCI_Group_get_world(&group); ARMCI_Absolute_id(&group, count))
  CASE("tree", armci_msg_bintree(1, four, four + 1, four + 2, four + 3))
  CASE("returns_device", void *places[64]; refused(ARMCI_Malloc_memdev(places, 8, "tape"));
       MPI_Abort(MPI_COMM_WORLD, 1))
  CASE("returns_no_device", void *places[64]; refused(ARMCI_Malloc_memdev(places, 8, "gpu"));
       MPI_Abort(MPI_COMM_WORLD, 1))
  if (me != count - 1) {
    armci_msg_barrier(); /* never completes */
    return;
  }
  CASE("receiver", armci_msg_snd(1, bytes, 1, count))
  CASE("sender", armci_msg_rcv(1, bytes, 1, &size, -3))
  CASE("tag", armci_msg_snd(-5, bytes, 1, 0))
  CASE("message_size", armci_msg_snd(5, bytes, -1, 0))
  CASE("too_long", armci_msg_snd(5, bytes, 64, me); armci_msg_rcv(5, bytes, 8, &size, me))
  CASE("node", armci_domain_nprocs(ARMCI_DOMAIN_SMP, 1000))
  CASE("node_rank", armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, 0, 1000))
  CASE("rank", ARMCI_Same_node(count))
  CASE("notify", armci_notify(-1))
  CASE("notify_self", armci_notify_wait(me, &size))
  CASE("memory_size", void *places[64]; ARMCI_Malloc(places, -5))
  CASE("memget", armci_meminfo_t information; ARMCI_Memget(0, &information, 0))
  CASE("iterator", armci_stride_info_init(&iterator, bytes, 9, four, four))
  CASE("iterator_end", armci_stride_info_init(&iterator, bytes, 0, NULL, none);
       armci_stride_info_next(&iterator);
       armci_stride_info_next(&iterator))
  CASE("error", ARMCI_Error("the program's own words", 9))
  CASE("abort", armci_msg_abort(7))
  CASE("returns_levels", refused(ARMCI_PutS(bytes, none, bytes, none, none, 9, me));
       MPI_Abort(MPI_COMM_WORLD, 1))
  CASE("strided_levels", double scale = 1; comex_accs(
           COMEX_ACC_DBL, &scale, bytes, none, bytes, none, none, 1 << 30, me, COMEX_GROUP_WORLD))
  CASE("returns_count", refused(ARMCI_GetS(bytes, none, bytes, none, bad, 1, me));
       MPI_Abort(MPI_COMM_WORLD, 1))
  fprintf(stderr, "there is no case %s\n", what);
}

int main(int argc, char **argv) {
  if (strcmp(argv[1], "early") == 0) {
    armci_msg_init(&argc, &argv);
    armci_msg_me();
  }
  begin(&argc, &argv);
  run(argv[1]);
  return end();
}
