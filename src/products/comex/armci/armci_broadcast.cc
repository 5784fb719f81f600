// products/comex/armci/armci_broadcast.cc: broadcasts of one rank's bytes to a group.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace tanada::comex::armci {

void broadcast(
    const char *call, const participants &members, void *buffer, int size, int root) noexcept {
  auto &self = running(call);
  int count = self.count;
  if (members.group() != COMEX_GROUP_WORLD)
    require_mpi_ok(call, "MPI_Comm_size", MPI_Comm_size(members.communicator(), &count));
  if (root < 0 || root >= count)
    fatal(call, "there is no rank {} to broadcast from: valid are 0 to {}", root, count - 1);
  if (self.shared && members.group() == COMEX_GROUP_WORLD) {
    return self.shared->broadcast(call, {static_cast<std::byte *>(buffer), size_t(size)}, root);
  }
  int me = 0;
  require_mpi_ok(call, "MPI_Comm_rank", MPI_Comm_rank(members.communicator(), &me));
  message_buffer const message(
      buffer,
      size_t(size),
      me == root ? message_buffer::access_mode::read : message_buffer::access_mode::write);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code =
      MPI_Ibcast(message.data(), size, MPI_BYTE, root, members.communicator(), &request);
  finish(call, "MPI_Ibcast", code, &request);
}

}  // namespace tanada::comex::armci

namespace {

// Through MPI, the call is a barrier, too, as in Global Arrays' own ports. Without the barrier only
// the root would be waited for.
void broadcast_after_barrier(
    const char *call, const participants &members, void *buffer, int size, int root) {
  check_buffer(call, buffer, size);
  if (running(call).shared && members.group() == COMEX_GROUP_WORLD)
    return broadcast(call, members, buffer, size, root);
  if (members.group() == COMEX_GROUP_NULL) {
    fence(call, members);
    MPI_Request request = MPI_REQUEST_NULL;
    int const code = MPI_Ibarrier(members.communicator(), &request);
    finish(call, "MPI_Ibarrier", code, &request);
  } else {
    require_ok(call, "comex_barrier", comex_barrier(members.group()));
  }
  broadcast(call, members, buffer, size, root);
}

// The number of a world rank among the participants; -1: it does not take part.
int rank_in(const char *call, MPI_Comm communicator, int rank) {
  MPI_Group world_members = MPI_GROUP_NULL;
  MPI_Group audience_members = MPI_GROUP_NULL;
  require_mpi_ok(call, "MPI_Comm_group", MPI_Comm_group(running(call).world, &world_members));
  require_mpi_ok(call, "MPI_Comm_group", MPI_Comm_group(communicator, &audience_members));
  int number = MPI_UNDEFINED;
  require_mpi_ok(call,
                 "MPI_Group_translate_ranks",
                 MPI_Group_translate_ranks(world_members, 1, &rank, audience_members, &number));
  MPI_Group_free(&world_members);
  MPI_Group_free(&audience_members);
  return number == MPI_UNDEFINED ? -1 : number;
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, armci_msg_bcast, (void *buffer, int len, int root), {
  broadcast_after_barrier(call, participants(call, SCOPE_ALL), buffer, len, root);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_brdcst, (void *buffer, int len, int root), {
  broadcast_after_barrier(call, participants(call, SCOPE_ALL), buffer, len, root);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_bcast_scope, (int scope, void *buffer, int len, int root), {
  broadcast_after_barrier(call, participants(call, scope), buffer, len, root);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_clus_brdcst, (void *buf, int len), {
  broadcast_after_barrier(call, participants(call, SCOPE_NODE), buf, len, 0);
})

ARMCI_DEFINE_PLAIN(
    void,
    armci_msg_group_bcast_scope,
    (int scope, void *buf, int len, int root, ARMCI_Group *group),
    {
      int const count = running(call).count;
      if (root < 0 || root >= count)
        fatal(call, "there is no rank {}: valid are 0 to {}", root, count - 1);
      participants const members(call, scope, group_from(call, group));
      int const number = rank_in(call, members.communicator(), root);
      if (number < 0)
        fatal(call,
              "rank {} of the world does not take part: it is not in group {}, or on another node",
              root,
              *group);
      broadcast_after_barrier(call, members, buf, len, number);
    })

ARMCI_DEFINE_PLAIN(
    void,
    armci_grp_clus_brdcst,
    (void *buf, int len, int grp_master, int grp_clus_nproc, ARMCI_Group *mastergroup),
    {
      auto const &self = running(call);
      check_buffer(call, buf, len);
      comex_group_t const group = group_from(call, mastergroup);
      int me = -1;
      require_ok(call, "comex_group_rank", comex_group_rank(group, &me));
      auto const in_world = [call, group](int rank) {
        int world_rank = -1;
        require_ok(call,
                   "comex_group_translate_world",
                   comex_group_translate_world(group, rank, &world_rank));
        return world_rank;
      };
      message_buffer const message(buf,
                                   size_t(len),
                                   me == grp_master ? message_buffer::access_mode::read
                                                    : message_buffer::access_mode::write);
      MPI_Request request = MPI_REQUEST_NULL;
      if (me != grp_master) {
        int const code = MPI_Irecv(message.data(),
                                   len,
                                   MPI_BYTE,
                                   in_world(grp_master),
                                   tag_broadcast,
                                   self.internal,
                                   &request);
        return finish(call, "MPI_Irecv", code, &request);
      }
      for (int rank = grp_master + 1; rank < grp_master + grp_clus_nproc; rank++) {
        int const code = MPI_Isend(
            message.data(), len, MPI_BYTE, in_world(rank), tag_broadcast, self.internal, &request);
        finish(call, "MPI_Isend", code, &request);
      }
    })
