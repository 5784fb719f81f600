// products/comex/armci/participants.cc: scopes, element types and argument checks of collective
// calls.
#include "products/comex/armci/fatal.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

namespace tanada::comex::armci {
namespace {

// The ranks of a group on this node, numbered as in the group. Collective over only those ranks.
// Rare, so that it is created for each call.
MPI_Comm intersect(const char *call, MPI_Comm group, MPI_Comm node) noexcept {
  MPI_Group group_members = MPI_GROUP_NULL;
  MPI_Group node_members = MPI_GROUP_NULL;
  MPI_Group intersection = MPI_GROUP_NULL;
  require_mpi_ok(call, "MPI_Comm_group", MPI_Comm_group(group, &group_members));
  require_mpi_ok(call, "MPI_Comm_group", MPI_Comm_group(node, &node_members));
  require_mpi_ok(call,
                 "MPI_Group_intersection",
                 MPI_Group_intersection(group_members, node_members, &intersection));
  MPI_Comm communicator = MPI_COMM_NULL;
  waiting_in_mpi const waiting;
  require_mpi_ok(
      call, "MPI_Comm_create_group", MPI_Comm_create_group(group, intersection, 0, &communicator));
  for (MPI_Group *members : {&group_members, &node_members, &intersection})
    MPI_Group_free(members);
  return communicator;
}

}  // namespace

bool check_scope(const char *call, int scope) noexcept {
  if (scope != SCOPE_ALL && scope != SCOPE_NODE && scope != SCOPE_MASTERS) {
    fatal(call,
          "there is no scope {}: {} is all, {} the node, {} the masters",
          scope,
          SCOPE_ALL,
          SCOPE_NODE,
          SCOPE_MASTERS);
  }
  return scope == SCOPE_NODE;
}

element_type element_of(const char *call, int type) noexcept {
  switch (type) {
    case ARMCI_INT:
      return {MPI_INT, sizeof(int), true};
    case ARMCI_LONG:
      return {MPI_LONG, sizeof(long), true};
    case ARMCI_LONG_LONG:
      return {MPI_LONG_LONG, sizeof(long long), true};
    case ARMCI_FLOAT:
      return {MPI_FLOAT, sizeof(float), false};
    case ARMCI_DOUBLE:
      return {MPI_DOUBLE, sizeof(double), false};
    default:
      fatal(call, "there is no type {}", type);
  }
}

void check_buffer(const char *call, const void *buffer, int count) noexcept {
  if (count < 0)
    fatal(call, "the size is negative: {}", count);
  if (buffer == nullptr && count > 0)
    fatal(call, "the buffer is a null pointer, but its size is {}", count);
}

participants::participants(const char *call, int scope) noexcept : call_(call) {
  auto const &self = running(call);
  if (check_scope(call, scope)) {
    communicator_ = self.node;
    return;
  }
  group_ = self.default_group;
  communicator_ = communicator_of(call, group_);
}

participants::participants(const char *call, int scope, comex_group_t group) noexcept
    : call_(call) {
  auto const &self = running(call);
  communicator_ = communicator_of(call, group);
  if (check_scope(call, scope)) {
    communicator_ = intersect(call, communicator_, self.node);
    is_owned_ = true;
  } else {
    group_ = group;
  }
}

participants::~participants() {
  if (!is_owned_)
    return;
  waiting_in_mpi const waiting;
  require_mpi_ok(call_, "MPI_Comm_free", MPI_Comm_free(&communicator_));
}

void fence(const char *call, const participants &members) noexcept {
  comex_group_t const group =
      members.group() == COMEX_GROUP_NULL ? COMEX_GROUP_WORLD : members.group();
  require_ok(call, "comex_fence_all", comex_fence_all(group));
}

}  // namespace tanada::comex::armci
