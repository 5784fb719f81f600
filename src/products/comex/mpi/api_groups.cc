// Groups of processes, and their barriers.
#include <algorithm>
#include <set>

#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

// A communicator for these ranks of a group, all of whom ask for it.
MPI_Comm join(const char *call, MPI_Comm from, const int *ranks, int count) {
  MPI_Group all = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  MPI_Comm_group(from, &all);
  MPI_Group_incl(all, count, ranks, &chosen);
  MPI_Comm made = MPI_COMM_NULL;
  int const code = MPI_Comm_create_group(from, chosen, 0, &made);
  MPI_Group_free(&chosen);
  MPI_Group_free(&all);
  if (code != MPI_SUCCESS)
    fatal(call, "MPI has no communicator for %d ranks of a group", count);
  return made;
}

}  // namespace

extern "C" {

int comex_group_create(int n, int *pid_list, comex_group_t group, comex_group_t *new_group) {
  constexpr const char *call = "comex_group_create";
  return guarded(call, [&](process &self) {
    auto const &from = group_of(self, call, group);
    if (n < 0 || size_t(n) > from.world.size())
      return refuse_call(call, "%d ranks of group %d, which has %zu", n, group, from.world.size());
    tanada::comex::group made;
    std::set<int> seen;
    for (int i = 0; i < n; i++) {
      int const rank = pid_list[i];
      if (rank < 0 || size_t(rank) >= from.world.size())
        return refuse_call(call, "group %d has no rank %d", group, rank);
      if (!seen.insert(rank).second)
        return refuse_call(call, "rank %d is there twice", rank);
      made.world.push_back(from.world[size_t(rank)]);
    }
    auto const mine = std::find(made.world.begin(), made.world.end(), self.engine->me());
    // Who is not in it may ask about it, and frees it.
    bool const is_in = mine != made.world.end();
    made.rank = is_in ? int(mine - made.world.begin()) : MPI_UNDEFINED;
    if (is_in)
      made.communicator = join(call, from.communicator, pid_list, n);
    auto const free = std::find(self.groups.begin(), self.groups.end(), std::nullopt);
    *new_group = comex_group_t(free - self.groups.begin());
    if (free == self.groups.end())
      self.groups.emplace_back(std::move(made));
    else
      *free = std::move(made);
    return COMEX_SUCCESS;
  });
}

int comex_group_free(comex_group_t group) {
  constexpr const char *call = "comex_group_free";
  return guarded(call, [&](process &self) {
    if (self.is_world(group))
      return refuse_call(call, "the world stays until comex_finalize");
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

int comex_group_translate_ranks(int n, comex_group_t group_from, int *ranks_from,
                                comex_group_t group_to, int *ranks_to) {
  constexpr const char *call = "comex_group_translate_ranks";
  return guarded(call, [&](process &self) {
    auto const &to = group_of(self, call, group_to).world;
    for (int i = 0; i < n; i++) {
      auto const at =
          std::find(to.begin(), to.end(), world_rank(self, call, group_from, ranks_from[i]));
      ranks_to[i] = at == to.end() ? MPI_UNDEFINED : int(at - to.begin());
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
