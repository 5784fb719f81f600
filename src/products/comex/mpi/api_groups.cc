// products/comex/mpi/api_groups.cc: groups of processes, and their barriers.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

// Creates a communicator for these ranks of a group; collective over them.
MPI_Comm create_communicator(const char *call, MPI_Comm parent, const int *ranks, int count) {
  MPI_Group parent_group = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  MPI_Comm_group(parent, &parent_group);
  MPI_Group_incl(parent_group, count, ranks, &chosen);
  MPI_Comm communicator = MPI_COMM_NULL;
  int const code = MPI_Comm_create_group(parent, chosen, 0, &communicator);
  MPI_Group_free(&chosen);
  MPI_Group_free(&parent_group);
  if (code != MPI_SUCCESS)
    fatal(call, "MPI cannot create a communicator for {} ranks of a group", count);
  return communicator;
}

// The members that the list names by their ranks in the parent. nullopt: the list is invalid, with
// a message.
std::optional<std::vector<pe_index>> members_of(const char *call,
                                                const group &parent,
                                                comex_group_t handle,
                                                std::span<const int> ranks) {
  std::vector<pe_index> members;
  std::set<int> seen_ranks;
  for (int const rank : ranks) {
    if (rank < 0 || size_t(rank) >= parent.world.size()) {
      report_failure(call, "group {} has no rank {}", handle, rank);
      return std::nullopt;
    }
    if (!seen_ranks.insert(rank).second) {
      report_failure(call, "rank {} is in the list twice", rank);
      return std::nullopt;
    }
    members.push_back(parent.world[size_t(rank)]);
  }
  TND_ASSERT(members.size() == ranks.size());
  return members;
}

// Returns the handle.
comex_group_t add_group(process &self, group members) {
  auto const free = std::find(self.groups.begin(), self.groups.end(), std::nullopt);
  auto const handle = comex_group_t(free - self.groups.begin());
  TND_ASSERT(handle != COMEX_GROUP_WORLD);
  if (free == self.groups.end())
    self.groups.emplace_back(std::move(members));
  else
    *free = std::move(members);
  return handle;
}

}  // namespace

extern "C" {

int comex_group_create(int n, int *pid_list, comex_group_t group, comex_group_t *new_group) {
  constexpr const char *call = "comex_group_create";
  return guarded(call, [&](process &self) {
    auto const &parent = group_of(self, call, group);
    if (n < 0 || size_t(n) > parent.world.size())
      return report_failure(
          call, "{} ranks are not in group {}, which has {}", n, group, parent.world.size());
    tanada::comex::group new_members;
    auto members = members_of(call, parent, group, {pid_list, size_t(n)});
    if (!members)
      return COMEX_FAILURE;
    new_members.world = std::move(*members);
    auto const self_position =
        std::find(new_members.world.begin(), new_members.world.end(), self.engine->me());
    // Callers outside of the group may also query and free it.
    bool const is_in = self_position != new_members.world.end();
    new_members.rank = is_in ? int(self_position - new_members.world.begin()) : MPI_UNDEFINED;
    if (is_in)
      new_members.communicator = create_communicator(call, parent.communicator, pid_list, n);
    *new_group = add_group(self, std::move(new_members));
    return COMEX_SUCCESS;
  });
}

int comex_group_free(comex_group_t group) {
  constexpr const char *call = "comex_group_free";
  return guarded(call, [&](process &self) {
    if (self.is_world(group))
      return report_failure(call, "the world group cannot be freed");
    auto &communicator = group_of(self, call, group).communicator;
    if (communicator != MPI_COMM_NULL)
      MPI_Comm_free(&communicator);
    self.groups[size_t(group)].reset();
    return COMEX_SUCCESS;
  });
}

int comex_group_rank(comex_group_t group, int *rank) {
  return guarded("comex_group_rank", [&](process &self) {
    *rank = group_of(self, "comex_group_rank", group).rank;
    return COMEX_SUCCESS;
  });
}

int comex_group_size(comex_group_t group, int *size) {
  return guarded("comex_group_size", [&](process &self) {
    *size = int(group_of(self, "comex_group_size", group).world.size());
    return COMEX_SUCCESS;
  });
}

int comex_group_comm(comex_group_t group, MPI_Comm *comm) {
  return guarded("comex_group_comm", [&](process &self) {
    *comm = group_of(self, "comex_group_comm", group).communicator;
    return COMEX_SUCCESS;
  });
}

int comex_group_translate_ranks(
    int n, comex_group_t group_from, int *ranks_from, comex_group_t group_to, int *ranks_to) {
  constexpr const char *call = "comex_group_translate_ranks";
  return guarded(call, [&](process &self) {
    auto const &target_world = group_of(self, call, group_to).world;
    for (int i = 0; i < n; i++) {
      auto const position = std::find(target_world.begin(),
                                      target_world.end(),
                                      world_rank(self, call, group_from, ranks_from[i]));
      ranks_to[i] =
          position == target_world.end() ? MPI_UNDEFINED : int(position - target_world.begin());
    }
    return COMEX_SUCCESS;
  });
}

int comex_group_translate_world(comex_group_t group, int group_rank, int *world_rank) {
  constexpr const char *call = "comex_group_translate_world";
  return guarded(call, [&](process &self) {
    *world_rank = tanada::comex::world_rank(self, call, group, group_rank);
    return COMEX_SUCCESS;
  });
}

int comex_barrier(comex_group_t group) {
  return guarded("comex_barrier", [&](process &self) {
    barrier(self, "comex_barrier", group);
    return COMEX_SUCCESS;
  });
}

}  // extern "C"
