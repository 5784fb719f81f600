// products/comex/mpi/process.hpp: state of this process between comex_init and comex_finalize.
#pragma once

#include <comex/comex.h>
#include <fmt/core.h>
#include <mpi.h>

#include <exception>
#include <optional>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/mpi/mpi_bootstrap.hpp"

namespace tanada::comex {

// An ordered set of the job's processes, with a communicator of its own.
struct group {
  MPI_Comm communicator = MPI_COMM_NULL;  // null: this process is not a member
  int rank = 0;                           // this process's; MPI_UNDEFINED: it is not a member
  std::vector<pe_index> world;            // process of the job, by rank in the group
};

// Created by comex_init and destroyed by comex_finalize.
//
// Thread safety: one thread at a time, as comex.h requires.
struct process {
  ~process();

  MPI_Comm communicator = MPI_COMM_NULL;  // the launcher's; outlives it
  std::unique_ptr<mpi_bootstrap> launcher;
  std::unique_ptr<comex::engine> engine;
  std::vector<std::optional<group>> groups;  // by handle; the first is the world
  std::vector<int32_t> mutex_counts;         // by process of the job; empty: no mutexes exist
  // Handles of operations count up; those up to `finished` are complete.
  int32_t started = 0, finished = 0;

  bool is_world(comex_group_t handle) const noexcept {
    return handle == COMEX_GROUP_WORLD;
  }
};

extern constinit process *current_process;  // null: before init or after finalize
// After finalize with swapping: the process whose memory stays swappable until the program ends.
// Null: there is no such process.
extern constinit process *retired_process;

// The current process. Ends the program, with a message that names the call, if there is no current
// process.
process &require_running(const char *call);

// The exit code of the job; never 0 in the bits that systems keep.
constexpr int exit_code_of(int code) noexcept {
  return (code & 0xff) == 0 ? 1 : code;
}

// Ends the job with `text` on stderr and the code.
[[noreturn, gnu::cold]] void end_job(const char *call, const char *text, int code) noexcept;

// Ends the job with exit code 1 and one line that names the call and this process.
[[noreturn, gnu::cold]] void fatal_text(const char *call,
                                        fmt::string_view format,
                                        fmt::format_args arguments) noexcept;
template <class... Arguments>
[[noreturn]] void fatal(const char *call,
                        fmt::format_string<Arguments...> format,
                        Arguments &&...arguments) noexcept {
  fatal_text(call, format, fmt::make_format_args(arguments...));
}

// Prints such a line and returns COMEX_FAILURE, after which programs may continue. Only between
// init and finalize.
[[gnu::cold]] int report_failure_text(const char *call,
                                      fmt::string_view format,
                                      fmt::format_args arguments) noexcept;
template <class... Arguments>
int report_failure(const char *call,
                   fmt::format_string<Arguments...> format,
                   Arguments &&...arguments) noexcept {
  return report_failure_text(call, format, fmt::make_format_args(arguments...));
}

// Ends the job on a failure that programs do not check for, because other ports do not return it.
inline void require_ok(const char *call, status code) {
  if (code != status::ok) [[unlikely]]
    fatal(call, "{}", last_message());
}

// The group of the handle; fatal if it does not exist.
group &group_of(process &self, const char *call, comex_group_t handle);
// The job's process with that rank; fatal if the group has no such rank.
pe_index world_rank(process &self, const char *call, comex_group_t handle, int rank);

// Gathers `size` bytes of each process of the group, by rank.
void gather(process &self,
            const char *call,
            const group &members,
            const void *contribution,
            void *gathered,
            size_t size);
void barrier(process &self, const char *call, comex_group_t handle);
// Waits for the MPI request that a call has started with the code `started`; fatal if either fails.
void complete(process &self, const char *call, int started, MPI_Request &request);

// Yields this process's slot or memory if other ranks need them. Every library call does it, since
// a program may repeat only that call.
void yield_in_call(process &self, const char *call) noexcept;

// Ends the job on an exception: none may reach C.
template <class Body>
auto guarded(const char *call, Body &&body) noexcept {
  try {
    process &self = require_running(call);
    if (self.engine->swapper() != nullptr) [[unlikely]]
      yield_in_call(self, call);
    return body(self);
  } catch (const std::exception &thrown) {
    fatal(call, "{}", thrown.what());
  }
}

}  // namespace tanada::comex
