// products/comex/armci/state.hpp: the library's state between init and finalize. Nothing is locked,
// since one thread calls at a time.
#pragma once

#include <optional>
#include <vector>

#include <compat/comex/comex.h>

#include "products/comex/armci/shared_collectives.hpp"
#include "products/comex/mpi/wait.hpp"

namespace tanada::comex::armci {

// Ranks and nodes. Nodes are numbered by their lowest ranks; the ranks of a node are in world
// order.
struct node_map {
  std::vector<int> node_of;                // by world rank
  std::vector<std::vector<int>> ranks_of;  // by node

  const std::vector<int> &node_peers(int rank) const {
    return ranks_of[size_t(node_of[size_t(rank)])];
  }
};

struct state {
  int me = 0;
  int count = 0;                   // ranks of the world
  MPI_Comm world = MPI_COMM_NULL;  // owned by comex
  MPI_Comm node = MPI_COMM_NULL;   // ranks of this rank's node; owned by this library
  MPI_Comm messages =
      // Duplicate of the world for programs' messages, which may use any tag. Owned by this
      // library.
      MPI_COMM_NULL;
  // Duplicate of the world for internal messages. Owned by this library.
  MPI_Comm internal = MPI_COMM_NULL;
  comex_group_t default_group = COMEX_GROUP_WORLD;
  node_map nodes;
  std::vector<int> notified_counts;          // number of notifications sent to each rank
  int self_notified_count = 0;               // number of waits for notifications from itself
  std::optional<shared_collectives> shared;  // empty: several nodes, or swapping is on
};

// Tags of the messages in `internal`.
enum internal_tag : int { tag_notify = 1, tag_broadcast = 2 };

// Ends the job if `call` is made before init or after finalize.
state &running(const char *call) noexcept;

bool is_running() noexcept;

// Collective; comex must be initialized. A second call has no effect. start() may throw.
void start(const char *call);
void stop(const char *call);

// The communicator of a group that contains this rank.
MPI_Comm communicator_of(const char *call, comex_group_t group) noexcept;

// The group handle that a program passed by pointer.
comex_group_t group_from(const char *call, const int *group) noexcept;

// The memory that MPI uses in place of the program's, which may be swapped out while this rank
// waits.
class message_buffer {
 public:
  // How MPI accesses the buffer.
  enum class access_mode { read, write, read_and_write };

  message_buffer(const void *buffer, size_t size, access_mode access) noexcept
      : buffer_(const_cast<void *>(buffer)),
        size_(size),
        is_written_(access != access_mode::read),
        mpi_buffer_(tnd_comex_buffer_begin(buffer_, size, access != access_mode::write)) {}
  ~message_buffer() {
    tnd_comex_buffer_end(buffer_, mpi_buffer_, size_, is_written_);
  }
  message_buffer(const message_buffer &) = delete;
  message_buffer &operator=(const message_buffer &) = delete;

  void *data() const {
    return mpi_buffer_;
  }

 private:
  void *buffer_;
  size_t size_;
  bool is_written_;
  void *mpi_buffer_;
};

// Scope of an MPI call that waits internally.
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

// Waits for the request that the MPI function `inner` has started with the result `code`; other
// processes of the node can run meanwhile. All waits of this library for messages go through it.
void finish(const char *call,
            const char *inner,
            int code,
            MPI_Request *request,
            MPI_Status *status = MPI_STATUS_IGNORE) noexcept;

}  // namespace tanada::comex::armci
