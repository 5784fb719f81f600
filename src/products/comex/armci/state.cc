#include "products/comex/armci/state.hpp"

#include <algorithm>
#include <memory>

#include <compat/comex/armci.h>

#include "products/comex/armci/fatal.hpp"

MPI_Comm ARMCI_COMM_WORLD = MPI_COMM_NULL;

namespace tanada::comex::armci {
namespace {

constinit std::unique_ptr<state> current;

// The master of each rank's node, of which this rank's is `master`.
std::vector<int> gather_masters(const char *call, const state &self, int master) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<int> masters(size_t(self.count));
  int const code =
      MPI_Iallgather(&master, 1, MPI_INT, masters.data(), 1, MPI_INT, self.world, &request);
  finish(call, "MPI_Iallgather", code, &request);
  return masters;
}

// Ranks of a node that follow one another: Global Arrays counts on from the first of a node. A
// machine whose ranks are dealt out in turn is several nodes, of one rank each.
node_map number_nodes(const std::vector<int> &masters) {
  node_map map;
  for (size_t rank = 0; rank < masters.size(); rank++) {
    if (rank == 0 || masters[rank] != masters[rank - 1])
      map.ranks_of.emplace_back();
    map.node_of.push_back(int(map.ranks_of.size()) - 1);
    map.ranks_of.back().push_back(int(rank));
  }
  return map;
}

}  // namespace

bool is_running() noexcept {
  return current != nullptr;
}

state &running(const char *call) noexcept {
  if (current == nullptr)
    fatal(call, "called before ARMCI_Init or after ARMCI_Finalize");
  return *current;
}

void start(const char *call) {
  if (current != nullptr)
    return;
  auto made = std::make_unique<state>();
  need(call, "comex_group_rank", comex_group_rank(COMEX_GROUP_WORLD, &made->me));
  need(call, "comex_group_size", comex_group_size(COMEX_GROUP_WORLD, &made->count));
  made->world = communicator_of(call, COMEX_GROUP_WORLD);
  int const master = tnd_comex_node_master();
  waiting_in_mpi const waiting;
  need_mpi(call, "MPI_Comm_dup", MPI_Comm_dup(made->world, &made->messages));
  need_mpi(call, "MPI_Comm_dup", MPI_Comm_dup(made->world, &made->internal));
  made->nodes = number_nodes(gather_masters(call, *made, master));
  need_mpi(
      call, "MPI_Comm_split",
      MPI_Comm_split(made->world, made->nodes.node_of[size_t(made->me)], made->me, &made->node));
  // What goes wrong there is told by the call.
  for (MPI_Comm const each : {made->node, made->messages, made->internal})
    MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  made->notified.resize(size_t(made->count));
  made->near = near_calls::open(made->me, made->count);
  current = std::move(made);
  ARMCI_COMM_WORLD = current->world;
}

void stop(const char *call) {
  if (current == nullptr)
    return;
  waiting_in_mpi const waiting;
  for (MPI_Comm *each : {&current->node, &current->messages, &current->internal}) {
    need_mpi(call, "MPI_Comm_free", MPI_Comm_free(each));
  }
  current.reset();
  ARMCI_COMM_WORLD = MPI_COMM_NULL;
}

MPI_Comm communicator_of(const char *call, comex_group_t group) noexcept {
  MPI_Comm found = MPI_COMM_NULL;
  int const code = comex_group_comm(group, &found);
  if (code != COMEX_SUCCESS || found == MPI_COMM_NULL)
    fatal(call, "there is no group %d, or this rank is not in it", group);
  return found;
}

comex_group_t group_at(const char *call, const int *group) noexcept {
  if (group == nullptr)
    fatal(call, "the group is a null pointer");
  return *group;
}

void finish(const char *call, const char *inner, int code, MPI_Request *request,
            MPI_Status *status) noexcept {
  need_mpi(call, inner, code);
  need_mpi(call, inner, tnd_comex_wait(request, status));
}

}  // namespace tanada::comex::armci
