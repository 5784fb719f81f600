// products/comex/mpi/process.hpp: what this process is between comex_init and comex_finalize.
#pragma once

#include <comex/comex.h>
#include <mpi.h>

#include <exception>
#include <optional>
#include <vector>

#include "core/base/log.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/mpi/mpi_bootstrap.hpp"

namespace tanada::comex {

// Processes of the job in an order, with a communicator of their own.
struct group {
  MPI_Comm communicator = MPI_COMM_NULL;  // none: we are not in it
  int rank = 0;                           // ours; MPI_UNDEFINED: we are not in it
  std::vector<pe_index> world;            // by rank in the group: in the job
};

// Made by comex_init, destroyed by comex_finalize.
//
// Thread safety: one thread at a time, as comex.h has it.
struct process {
  ~process();

  MPI_Comm communicator = MPI_COMM_NULL;  // of the launcher; outlives it
  std::unique_ptr<mpi_bootstrap> launcher;
  std::unique_ptr<comex::engine> engine;
  std::vector<std::optional<group>> groups;  // by handle; the world is the first
  std::vector<int32_t> mutex_counts;         // by process of the job; empty: there are none
  // Handles of operations count up; those up to `finished` are over.
  int32_t started = 0, finished = 0;

  bool is_world(comex_group_t handle) const noexcept {
    return handle == COMEX_GROUP_WORLD;
  }
};

extern constinit process *current_process;  // null: not between init and finalize
extern constinit process *retired_process;  // after finalize: its memory leaves until the program
                                            // ends. Null: there is none

// The running one; ends the program with a message that names the call if there is none.
process &require_running(const char *call);

// The code that a job ends with: what systems keep of it is not 0.
constexpr int exit_code_of(int code) noexcept {
  return (code & 0xff) == 0 ? 1 : code;
}

// Ends the job: `text` to stderr, and the code.
[[noreturn, gnu::cold]] void end_job(const char *call, const char *text, int code) noexcept;

// Ends the job: one line that names the call and this process, the code is what processes end with.
[[noreturn, gnu::cold, gnu::format(printf, 2, 3)]] void fatal(const char *call, const char *format,
                                                              ...) noexcept;

// COMEX_FAILURE, with such a line: programs may go on after it. Between init and finalize.
[[gnu::cold, gnu::format(printf, 2, 3)]] int refuse_call(const char *call, const char *format,
                                                         ...) noexcept;

// A failure that programs do not look for, as they have none of it elsewhere.
inline void must(const char *call, status code) {
  if (code != status::ok) [[unlikely]]
    fatal(call, "%s", last_message().c_str());
}

// The group of the handle; fatal if there is none.
group &group_of(process &self, const char *call, comex_group_t handle);
// The process of the job that has the rank; fatal if the group has no such.
pe_index world_rank(process &self, const char *call, comex_group_t handle, int rank);

// All values of the group's processes, by rank.
void gather(process &self, const char *call, const group &among, const void *mine, void *everybodys,
            size_t size);
void barrier(process &self, const char *call, comex_group_t handle);
// MPI's answer to `started`, and then to `request`, is awaited; fatal if either says no.
void complete(process &self, const char *call, int started, MPI_Request &request);

// Other ranks get this one's slot or room if they lack it: for every call of a program, because it
// may be the only one that the program repeats.
void make_way_in(process &self, const char *call) noexcept;

// No exception leaves a call of C's.
template <class Body>
auto guarded(const char *call, Body &&body) noexcept {
  try {
    process &self = require_running(call);
    if (self.engine->away() != nullptr) [[unlikely]]
      make_way_in(self, call);
    return body(self);
  } catch (const std::exception &thrown) {
    fatal(call, "%s", thrown.what());
  }
}

}  // namespace tanada::comex
