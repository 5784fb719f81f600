// products/comex/armci/order.cc: barriers, fences, notifications, atomic operations and mutexes.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

ARMCI_DEFINE(void, ARMCI_Barrier, (void), {
  require_ok(call, "comex_barrier", comex_barrier(running(call).default_group));
})

ARMCI_DEFINE_SMALL(void, armci_msg_barrier, (void), {
  require_ok(call, "comex_barrier", comex_barrier(running(call).default_group));
})

ARMCI_DEFINE_SMALL(void, armci_msg_group_barrier, (ARMCI_Group * group), {
  require_ok(call, "comex_barrier", comex_barrier(group_from(call, group)));
})

ARMCI_DEFINE(void, ARMCI_Fence, (int proc), {
  require_ok(call, "comex_fence_proc", comex_fence_proc(proc, COMEX_GROUP_WORLD));
})

ARMCI_DEFINE(void, ARMCI_AllFence, (void), {
  require_ok(call, "comex_fence_all", comex_fence_all(COMEX_GROUP_WORLD));
})

ARMCI_DEFINE(void, ARMCI_GroupFence, (ARMCI_Group * group), {
  comex_group_t const fenced = group_from(call, group);
  require_ok(call, "comex_fence_all", comex_fence_all(fenced > 0 ? fenced : COMEX_GROUP_WORLD));
})

ARMCI_DEFINE(int, ARMCI_Rmw, (int op, void *ploc, void *prem, int extra, int proc), {
  return comex_rmw(op, ploc, prem, extra, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_Create_mutexes, (int num), { return comex_create_mutexes(num); })

ARMCI_DEFINE(int, ARMCI_Destroy_mutexes, (void), { return comex_destroy_mutexes(); })

ARMCI_DEFINE(void, ARMCI_Lock, (int mutex, int proc), {
  require_ok(call, "comex_lock", comex_lock(mutex, proc));
})

ARMCI_DEFINE(void, ARMCI_Unlock, (int mutex, int proc), {
  require_ok(call, "comex_unlock", comex_unlock(mutex, proc));
})

namespace {

void check_rank(const char *call, int rank) {
  int const count = running(call).count;
  if (rank < 0 || rank >= count)
    fatal(call, "there is no rank {}: valid are 0 to {}", rank, count - 1);
}

}  // namespace

// A notification is a message with the number of notifications so far. Waiting for it lets others
// run, as waiting for any message does.
ARMCI_DEFINE_SMALL(int, armci_notify, (int proc), {
  check_rank(call, proc);
  auto &self = running(call);
  require_ok(call, "comex_fence_proc", comex_fence_proc(proc, COMEX_GROUP_WORLD));
  int &count = self.notified_counts[size_t(proc)];
  count++;
  if (proc == self.me)
    return count;
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Isend(&count, 1, MPI_INT, proc, tag_notify, self.internal, &request);
  finish(call, "MPI_Isend", code, &request);
  return count;
})

ARMCI_DEFINE_SMALL(int, armci_notify_wait, (int proc, int *pval), {
  check_rank(call, proc);
  auto &self = running(call);
  int count = 0;
  if (proc == self.me) {
    count = ++self.self_notified_count;
    if (count > self.notified_counts[size_t(proc)])
      fatal(call, "waits for a notification by itself that it has not sent");
  } else {
    MPI_Request request = MPI_REQUEST_NULL;
    int const code = MPI_Irecv(&count, 1, MPI_INT, proc, tag_notify, self.internal, &request);
    finish(call, "MPI_Irecv", code, &request);
  }
  if (pval != nullptr)
    *pval = count;
  return count;
})
