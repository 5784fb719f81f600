// products/comex/armci/messages.hpp: participants and element types of collective calls, and
// cleanup of messages.
#pragma once

#include <compat/comex/comex.h>
#include <compat/comex/message.h>

namespace tanada::comex::armci {

// An element type of message.h.
struct element_type {
  MPI_Datatype type;
  int size;  // bytes
  bool is_integer;
};
element_type element_of(const char *call, int type) noexcept;

// Returns whether the scope is the node. Ends the job if there is no such scope.
bool check_scope(const char *call, int scope) noexcept;

// Ends the job if the number of elements (or bytes) is negative, or positive with a null pointer.
void check_buffer(const char *call, const void *buffer, int count) noexcept;

// The ranks that take part in a collective call.
class participants {
 public:
  // A scope of the default group. ALL and MASTERS mean the whole group, NODE this rank's node.
  participants(const char *call, int scope) noexcept;
  // A scope of a group. NODE means the ranks of the group on this node; only those make the call.
  participants(const char *call, int scope, comex_group_t group) noexcept;
  participants(const participants &) = delete;
  ~participants();

  MPI_Comm communicator() const {
    return communicator_;
  }
  // The comex group to wait for; COMEX_GROUP_NULL if the participants are those of a node.
  comex_group_t group() const {
    return group_;
  }

 private:
  const char *call_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  comex_group_t group_ = COMEX_GROUP_NULL;
  bool is_owned_ = false;
};

// Completes all puts and accumulates of this rank at their targets. Before a call in which each
// rank waits for all others, this makes that call a barrier.
void fence(const char *call, const participants &members) noexcept;

// Broadcasts `size` bytes of rank `root` of the participants.
void broadcast(
    const char *call, const participants &members, void *buffer, int size, int root) noexcept;

// Cancels messages of this rank to itself that were not received.
void cancel_kept_messages(const char *call) noexcept;

}  // namespace tanada::comex::armci
