// products/comex/armci/broadcast.cc: one rank's bytes to all of a group.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace tanada::comex::armci {

void broadcast(const char *call, const audience &who, void *buffer, int size, int root) noexcept {
  auto &self = running(call);
  int count = self.count;
  if (who.group() != COMEX_GROUP_WORLD)
    need_mpi(call, "MPI_Comm_size", MPI_Comm_size(who.communicator(), &count));
  if (root < 0 || root >= count)
    fatal(call, "there is no rank %d to broadcast from: they are 0 to %d", root, count - 1);
  if (self.near && who.group() == COMEX_GROUP_WORLD) {
    return self.near->broadcast(call, {static_cast<std::byte *>(buffer), size_t(size)}, root);
  }
  int me = 0;
  need_mpi(call, "MPI_Comm_rank", MPI_Comm_rank(who.communicator(), &me));
  message_buffer const message(buffer, size_t(size),
                               me == root ? message_buffer::use::read : message_buffer::use::write);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Ibcast(message.data(), size, MPI_BYTE, root, who.communicator(), &request);
  finish(call, "MPI_Ibcast", code, &request);
}

}  // namespace tanada::comex::armci

namespace {

// Where it goes by MPI the call is a barrier, too, as those of Global Arrays' own ports; the root
// alone would be waited for.
void broadcast_after_barrier(const char *call, const audience &who, void *buffer, int size,
                             int root) {
  check_place(call, buffer, size);
  if (running(call).near && who.group() == COMEX_GROUP_WORLD)
    return broadcast(call, who, buffer, size, root);
  if (who.group() == COMEX_GROUP_NULL) {
    fence(call, who);
    MPI_Request request = MPI_REQUEST_NULL;
    int const code = MPI_Ibarrier(who.communicator(), &request);
    finish(call, "MPI_Ibarrier", code, &request);
  } else {
    need(call, "comex_barrier", comex_barrier(who.group()));
  }
  broadcast(call, who, buffer, size, root);
}

// The number in an audience of a rank of the world; -1: it has none.
int number_in(const char *call, MPI_Comm audience, int rank) {
  MPI_Group of_world = MPI_GROUP_NULL;
  MPI_Group of_audience = MPI_GROUP_NULL;
  need_mpi(call, "MPI_Comm_group", MPI_Comm_group(running(call).world, &of_world));
  need_mpi(call, "MPI_Comm_group", MPI_Comm_group(audience, &of_audience));
  int number = MPI_UNDEFINED;
  need_mpi(call, "MPI_Group_translate_ranks",
           MPI_Group_translate_ranks(of_world, 1, &rank, of_audience, &number));
  MPI_Group_free(&of_world);
  MPI_Group_free(&of_audience);
  return number == MPI_UNDEFINED ? -1 : number;
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, armci_msg_bcast, (void *buffer, int len, int root),
                   { broadcast_after_barrier(call, audience(call, SCOPE_ALL), buffer, len, root); })

ARMCI_DEFINE_PLAIN(void, armci_msg_brdcst, (void *buffer, int len, int root),
                   { broadcast_after_barrier(call, audience(call, SCOPE_ALL), buffer, len, root); })

ARMCI_DEFINE_PLAIN(void, armci_msg_bcast_scope, (int scope, void *buffer, int len, int root),
                   { broadcast_after_barrier(call, audience(call, scope), buffer, len, root); })

ARMCI_DEFINE_PLAIN(void, armci_msg_clus_brdcst, (void *buf, int len),
                   { broadcast_after_barrier(call, audience(call, SCOPE_NODE), buf, len, 0); })

ARMCI_DEFINE_PLAIN(
    void, armci_msg_group_bcast_scope,
    (int scope, void *buf, int len, int root, ARMCI_Group *group), {
      int const count = running(call).count;
      if (root < 0 || root >= count)
        fatal(call, "there is no rank %d: they are 0 to %d", root, count - 1);
      audience const who(call, scope, group_at(call, group));
      int const number = number_in(call, who.communicator(), root);
      if (number < 0)
        fatal(call,
              "rank %d of the world does not take part: it is not in group %d, or on another node",
              root, *group);
      broadcast_after_barrier(call, who, buf, len, number);
    })

ARMCI_DEFINE_PLAIN(
    void, armci_grp_clus_brdcst,
    (void *buf, int len, int grp_master, int grp_clus_nproc, ARMCI_Group *mastergroup), {
      auto const &self = running(call);
      check_place(call, buf, len);
      comex_group_t const group = group_at(call, mastergroup);
      int me = -1;
      need(call, "comex_group_rank", comex_group_rank(group, &me));
      auto const in_world = [call, group](int rank) {
        int found = -1;
        need(call, "comex_group_translate_world", comex_group_translate_world(group, rank, &found));
        return found;
      };
      message_buffer const message(
          buf, size_t(len),
          me == grp_master ? message_buffer::use::read : message_buffer::use::write);
      MPI_Request request = MPI_REQUEST_NULL;
      if (me != grp_master) {
        int const code = MPI_Irecv(message.data(), len, MPI_BYTE, in_world(grp_master),
                                   tag_broadcast, self.internal, &request);
        return finish(call, "MPI_Irecv", code, &request);
      }
      for (int rank = grp_master + 1; rank < grp_master + grp_clus_nproc; rank++) {
        int const code = MPI_Isend(message.data(), len, MPI_BYTE, in_world(rank), tag_broadcast,
                                   self.internal, &request);
        finish(call, "MPI_Isend", code, &request);
      }
    })
