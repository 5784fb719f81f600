// products/comex/armci/messages.hpp: who takes part in a collective call, what its elements are,
// and messages on their way.
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

// Ends the job where there is no such scope. Whether it is the node.
bool check_scope(const char *call, int scope) noexcept;

// Ends the job where there are less than 0 elements (or bytes), or some and no place for them.
void check_place(const char *call, const void *place, int count) noexcept;

// Those who take part.
class audience {
 public:
  // A scope of the default group: ALL and MASTERS are all of it, NODE is this rank's node.
  audience(const char *call, int scope) noexcept;
  // A scope of a group: NODE is those of it on this rank's node, who call this alone.
  audience(const char *call, int scope, comex_group_t group) noexcept;
  audience(const audience &) = delete;
  ~audience();

  MPI_Comm communicator() const {
    return communicator_;
  }
  // The group of comex whose ranks are waited for; COMEX_GROUP_NULL for those of a node.
  comex_group_t group() const {
    return group_;
  }

 private:
  const char *call_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  comex_group_t group_ = COMEX_GROUP_NULL;
  bool is_owned_ = false;
};

// All that this rank has put and accumulated is in its place. Before a call in which each rank
// waits for every other, that makes a barrier of it.
void fence(const char *call, const audience &who) noexcept;

// `size` bytes of rank `root` of the audience.
void broadcast(const char *call, const audience &who, void *buffer, int size, int root) noexcept;

// Messages to itself that were not received are taken back.
void forget_messages(const char *call) noexcept;

}  // namespace tanada::comex::armci
