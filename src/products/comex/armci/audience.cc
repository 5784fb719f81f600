// products/comex/armci/audience.cc: what collective calls share.
#include "products/comex/armci/fatal.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

namespace tanada::comex::armci {
namespace {

// Those of a group on this node, numbered as in the group. Collective over them alone, and rare: it
// is made for each call.
MPI_Comm intersect(const char *call, MPI_Comm group, MPI_Comm node) noexcept {
  MPI_Group of_group = MPI_GROUP_NULL;
  MPI_Group of_node = MPI_GROUP_NULL;
  MPI_Group both = MPI_GROUP_NULL;
  need_mpi(call, "MPI_Comm_group", MPI_Comm_group(group, &of_group));
  need_mpi(call, "MPI_Comm_group", MPI_Comm_group(node, &of_node));
  need_mpi(call, "MPI_Group_intersection", MPI_Group_intersection(of_group, of_node, &both));
  MPI_Comm made = MPI_COMM_NULL;
  waiting_in_mpi const waiting;
  need_mpi(call, "MPI_Comm_create_group", MPI_Comm_create_group(group, both, 0, &made));
  for (MPI_Group *each : {&of_group, &of_node, &both})
    MPI_Group_free(each);
  return made;
}

}  // namespace

bool check_scope(const char *call, int scope) noexcept {
  if (scope != SCOPE_ALL && scope != SCOPE_NODE && scope != SCOPE_MASTERS) {
    fatal(call, "there is no scope %d: %d is all, %d the node, %d the masters", scope, SCOPE_ALL,
          SCOPE_NODE, SCOPE_MASTERS);
  }
  return scope == SCOPE_NODE;
}

element_type element_of(const char *call, int type) noexcept {
  switch (type) {
    case ARMCI_INT: return {MPI_INT, sizeof(int), true};
    case ARMCI_LONG: return {MPI_LONG, sizeof(long), true};
    case ARMCI_LONG_LONG: return {MPI_LONG_LONG, sizeof(long long), true};
    case ARMCI_FLOAT: return {MPI_FLOAT, sizeof(float), false};
    case ARMCI_DOUBLE: return {MPI_DOUBLE, sizeof(double), false};
    default: fatal(call, "there is no type %d", type);
  }
}

void check_place(const char *call, const void *place, int count) noexcept {
  if (count < 0)
    fatal(call, "a size of %d", count);
  if (place == nullptr && count > 0)
    fatal(call, "a null pointer for a size of %d", count);
}

audience::audience(const char *call, int scope) noexcept : call_(call) {
  auto const &self = running(call);
  if (check_scope(call, scope)) {
    communicator_ = self.node;
    return;
  }
  group_ = self.default_group;
  communicator_ = communicator_of(call, group_);
}

audience::audience(const char *call, int scope, comex_group_t group) noexcept : call_(call) {
  auto const &self = running(call);
  communicator_ = communicator_of(call, group);
  if (check_scope(call, scope)) {
    communicator_ = intersect(call, communicator_, self.node);
    is_owned_ = true;
  } else {
    group_ = group;
  }
}

audience::~audience() {
  if (!is_owned_)
    return;
  waiting_in_mpi const waiting;
  need_mpi(call_, "MPI_Comm_free", MPI_Comm_free(&communicator_));
}

void fence(const char *call, const audience &who) noexcept {
  comex_group_t const group = who.group() == COMEX_GROUP_NULL ? COMEX_GROUP_WORLD : who.group();
  need(call, "comex_fence_all", comex_fence_all(group));
}

}  // namespace tanada::comex::armci
