// products/comex/armci/groups.cc: groups, including the default group.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

void create(const char *call, int count, int *ranks, comex_group_t parent, ARMCI_Group *new_group) {
  if (new_group == nullptr || (ranks == nullptr && count > 0))
    fatal(call, "the list of ranks or the group is a null pointer");
  if (comex_group_create(count, ranks, parent, new_group) != COMEX_SUCCESS) {
    fatal(call,
          "cannot create a group of these {} ranks (the first is {}) of group {}",
          count,
          count > 0 ? ranks[0] : -1,
          parent);
  }
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_create, (int n, int *pid_list, ARMCI_Group *group_out), {
  create(call, n, pid_list, running(call).default_group, group_out);
})

ARMCI_DEFINE_PLAIN(void,
                   ARMCI_Group_create_child,
                   (int n, int *pid_list, ARMCI_Group *group_out, ARMCI_Group *group_parent),
                   { create(call, n, pid_list, group_from(call, group_parent), group_out); })

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_free, (ARMCI_Group * group), {
  auto &self = running(call);
  comex_group_t const freed = group_from(call, group);
  require_ok(call, "comex_group_free", comex_group_free(freed));
  if (self.default_group == freed)
    self.default_group = COMEX_GROUP_WORLD;
})

ARMCI_DEFINE_PLAIN(int, ARMCI_Group_rank, (ARMCI_Group * group, int *rank), {
  return comex_group_rank(group_from(call, group), rank);
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_size, (ARMCI_Group * group, int *size), {
  require_ok(call, "comex_group_size", comex_group_size(group_from(call, group), size));
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_set_default, (ARMCI_Group * group), {
  running(call).default_group = group_from(call, group);
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_get_default, (ARMCI_Group * group_out), {
  *group_out = running(call).default_group;
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Group_get_world, (ARMCI_Group * group_out), {
  *group_out = COMEX_GROUP_WORLD;
})

ARMCI_DEFINE_PLAIN(int, ARMCI_Absolute_id, (ARMCI_Group * group, int group_rank), {
  int world_rank = -1;
  require_ok(call,
             "comex_group_translate_world",
             comex_group_translate_world(group_from(call, group), group_rank, &world_rank));
  return world_rank;
})

ARMCI_DEFINE_PLAIN(MPI_Comm, armci_group_comm, (ARMCI_Group * group), {
  return communicator_of(call, group_from(call, group));
})
