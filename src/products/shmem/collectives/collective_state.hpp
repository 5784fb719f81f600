// products/shmem/collectives/collective_state.hpp: the collective calls' state in a running
// program, and the conversion of statuses to return codes.
#pragma once

#include "products/shmem/collectives/collectives.hpp"
#include "products/shmem/fatal.hpp"
#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

// The object that runtime::coordination points to.
struct collective_state {
  // `queue`, `signals_queue`: queues of the job's device, if it has one, for the two contexts.
  collective_state(const onesided::job &job,
                   onesided::lane *endpoint,
                   std::unique_ptr<seams::device_queue> queue,
                   std::unique_ptr<seams::device_queue> signals_queue)
      : lane{endpoint},
        context{job.map(), endpoint, std::move(queue), false, job.staging()},
        signals{job.map(), endpoint, std::move(signals_queue), true, job.staging()},
        teams{
            {&job, &context, endpoint != nullptr && endpoint->is_ordered() ? &signals : &context}} {
  }

  onesided::lane *lane;  // null: all PEs are mapped
  onesided::context context, signals;
  team_set teams;
};

// Describes a collective call for messages. The addresses are symmetric; the sizes are those in
// this PE, in bytes.
struct collective_call {
  const char *name;
  const void *target = nullptr;
  size_t target_size = 0;
  const void *source = nullptr;
  size_t source_size = 0;
};

// Debug mode: ends the job if an address is not symmetric.
void check_addresses(const runtime &current, const collective_call &info);

// Converts a status to the program's result: 0, or nonzero for invalid arguments. Any other status
// ends the job.
int return_code(status code, const collective_call &info);

// Returns the team of a handle; null for SHMEM_TEAM_INVALID. Debug mode: ends the job for any other
// invalid handle.
team *team_of_call(const runtime &current, shmem_team_t handle, const char *call);

// Returns the handle of a team. That of a device team is a number, which is valid in kernels, too.
shmem_team_t handle_of(const runtime &current, const team *team_ptr) noexcept;

// Returns count * size. Ends the job if count * size * members overflows.
size_t checked_size(const char *call, size_t count, size_t size, size_t members = 1);

// Returns the bytes from the first element to the end of the last, of `members` consecutive blocks
// whose elements are `stride` >= 1 elements apart. Ends the job on overflow.
size_t checked_extent(const char *call,
                      const fabric_group::strides &shape,
                      ptrdiff_t stride,
                      size_t members);

// Destroys the contexts for kernels that were created from a team.
void destroy_device_contexts(runtime &current, const team *team_ptr, const char *call);

// Completes the operations started in the default context.
void complete(runtime &current, const char *call);

}  // namespace tanada::shmem
