// products/comex/armci/state.hpp: what the library knows between init and finalize. One thread
// calls at a time, so that nothing is locked.
#pragma once

#include <optional>
#include <vector>

#include <compat/comex/comex.h>

#include "products/comex/armci/near_calls.hpp"
#include "products/comex/mpi/wait.hpp"

namespace tanada::comex::armci {

// Who is where. Nodes are numbered by their lowest ranks, their ranks are in the world's order.
struct node_map {
  std::vector<int> node_of;                // of each rank of the world
  std::vector<std::vector<int>> ranks_of;  // of each node

  const std::vector<int> &neighbours(int rank) const {
    return ranks_of[size_t(node_of[size_t(rank)])];
  }
};

struct state {
  int me = 0;
  int count = 0;                   // ranks of the world
  MPI_Comm world = MPI_COMM_NULL;  // comex's own
  MPI_Comm node = MPI_COMM_NULL;   // of this rank's node, ours
  MPI_Comm messages =
      MPI_COMM_NULL;  // the world again, for programs' messages: any tag is theirs. Ours
  MPI_Comm internal = MPI_COMM_NULL;  // the world again, for messages that no program sees, ours
  comex_group_t default_group = COMEX_GROUP_WORLD;
  node_map nodes;
  std::vector<int> notified;       // how often this rank has notified each
  int awaited_of_self = 0;         // how often it has waited for itself
  std::optional<near_calls> near;  // none: ranks are of several nodes, or their memory leaves
};

// Tags of the messages in `internal`.
enum internal_tag : int { tag_notify = 1, tag_broadcast = 2 };

// Ends the job where a call comes before init or after finalize.
state &running(const char *call) noexcept;

bool is_running() noexcept;

// Collective: comex is initialised. A second time it does nothing. start may throw.
void start(const char *call);
void stop(const char *call);

// A group's communicator, of which this rank must be.
MPI_Comm communicator_of(const char *call, comex_group_t group) noexcept;

// A group's handle behind a pointer that a program gave.
comex_group_t group_at(const char *call, const int *group) noexcept;

// The program's memory as MPI gets it: where it stays while this rank waits.
class message_buffer {
 public:
  // What MPI does with it.
  enum class use { read, write, read_and_write };

  message_buffer(const void *buffer, size_t size, use what) noexcept
      : buffer_(const_cast<void *>(buffer)),
        size_(size),
        is_written_(what != use::read),
        used_(tnd_comex_buffer_begin(buffer_, size, what != use::write)) {}
  ~message_buffer() {
    tnd_comex_buffer_end(buffer_, used_, size_, is_written_);
  }
  message_buffer(const message_buffer &) = delete;
  message_buffer &operator=(const message_buffer &) = delete;

  void *data() const {
    return used_;
  }

 private:
  void *buffer_;
  size_t size_;
  bool is_written_;
  void *used_;
};

// Around calls of MPI's that wait by themselves.
struct waiting_in_mpi {
  waiting_in_mpi() noexcept {
    tnd_comex_leave();
  }
  ~waiting_in_mpi() {
    tnd_comex_enter();
  }
  waiting_in_mpi(const waiting_in_mpi &) = delete;
  waiting_in_mpi &operator=(const waiting_in_mpi &) = delete;
};

// The request that an MPI call, `inner`, has started with `code`: waits for it, letting others of
// this node run. The only way in which this library waits for messages.
void finish(const char *call, const char *inner, int code, MPI_Request *request,
            MPI_Status *status = MPI_STATUS_IGNORE) noexcept;

}  // namespace tanada::comex::armci
