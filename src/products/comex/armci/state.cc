// products/comex/armci/state.cc: the library's state: communicators, nodes and shared collectives.
#include "products/comex/armci/state.hpp"

#include <algorithm>
#include <memory>

#include <compat/comex/armci.h>

#include "products/comex/armci/fatal.hpp"

MPI_Comm ARMCI_COMM_WORLD = MPI_COMM_NULL;

namespace tanada::comex::armci {
namespace {

constinit std::unique_ptr<state> current_state;

// The master of each rank's node. That of this rank is `master`.
std::vector<int> gather_masters(const char *call, const state &self, int master) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<int> masters(size_t(self.count));
  int const code =
      MPI_Iallgather(&master, 1, MPI_INT, masters.data(), 1, MPI_INT, self.world, &request);
  finish(call, "MPI_Iallgather", code, &request);
  return masters;
}

// A node is a run of consecutive ranks, because Global Arrays counts on from a node's first rank.
// If ranks are placed on machines in turn, each rank is a node of its own.
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
  return current_state != nullptr;
}

state &running(const char *call) noexcept {
  if (current_state == nullptr)
    fatal(call, "called before ARMCI_Init or after ARMCI_Finalize");
  return *current_state;
}

void start(const char *call) {
  if (current_state != nullptr)
    return;
  auto created = std::make_unique<state>();
  require_ok(call, "comex_group_rank", comex_group_rank(COMEX_GROUP_WORLD, &created->me));
  require_ok(call, "comex_group_size", comex_group_size(COMEX_GROUP_WORLD, &created->count));
  created->world = communicator_of(call, COMEX_GROUP_WORLD);
  int const master = tnd_comex_node_master();
  waiting_in_mpi const waiting;
  require_mpi_ok(call, "MPI_Comm_dup", MPI_Comm_dup(created->world, &created->messages));
  require_mpi_ok(call, "MPI_Comm_dup", MPI_Comm_dup(created->world, &created->internal));
  created->nodes = number_nodes(gather_masters(call, *created, master));
  require_mpi_ok(call,
                 "MPI_Comm_split",
                 MPI_Comm_split(created->world,
                                created->nodes.node_of[size_t(created->me)],
                                created->me,
                                &created->node));
  // Their errors are reported by the call that meets them.
  for (MPI_Comm const communicator : {created->node, created->messages, created->internal})
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  created->notified_counts.resize(size_t(created->count));
  created->shared = shared_collectives::open(created->me, created->count);
  current_state = std::move(created);
  ARMCI_COMM_WORLD = current_state->world;
}

void stop(const char *call) {
  if (current_state == nullptr)
    return;
  waiting_in_mpi const waiting;
  for (MPI_Comm *communicator :
       {&current_state->node, &current_state->messages, &current_state->internal}) {
    require_mpi_ok(call, "MPI_Comm_free", MPI_Comm_free(communicator));
  }
  current_state.reset();
  ARMCI_COMM_WORLD = MPI_COMM_NULL;
}

MPI_Comm communicator_of(const char *call, comex_group_t group) noexcept {
  MPI_Comm communicator = MPI_COMM_NULL;
  int const code = comex_group_comm(group, &communicator);
  if (code != COMEX_SUCCESS || communicator == MPI_COMM_NULL)
    fatal(call, "there is no group {}, or this rank is not in it", group);
  return communicator;
}

comex_group_t group_from(const char *call, const int *group) noexcept {
  if (group == nullptr)
    fatal(call, "the group is a null pointer");
  return *group;
}

void finish(const char *call,
            const char *inner,
            int code,
            MPI_Request *request,
            MPI_Status *status) noexcept {
  require_mpi_ok(call, inner, code);
  require_mpi_ok(call, inner, tnd_comex_wait(request, status));
}

}  // namespace tanada::comex::armci
