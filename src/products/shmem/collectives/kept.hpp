// products/shmem/collectives/kept.hpp: what the collective calls of a running program keep, and how
// their results are told.
#pragma once

#include "products/shmem/collectives/collectives.hpp"
#include "products/shmem/fatal.hpp"
#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

// What runtime::coordination points to.
struct collectives {
  // A queue of the job's device, if it has one, for each.
  collectives(const pgas::job &job, pgas::lane *endpoint, std::unique_ptr<port::device_queue> queue,
              std::unique_ptr<port::device_queue> signals_queue)
      : lane{endpoint},
        context{job.map(), endpoint, std::move(queue), false, job.staging()},
        signals{job.map(), endpoint, std::move(signals_queue), true, job.staging()},
        teams{{&job, &context,
               endpoint != nullptr && endpoint->is_ordered() ? &signals : &context}} {}

  pgas::lane *lane;  // null: all PEs are mapped
  pgas::context context, signals;
  team_set teams;
};

// A collective call, for messages; the addresses are symmetric, of `target_size` and `source_size`
// bytes here.
struct collective_call {
  const char *name;
  const void *target = nullptr;
  size_t target_size = 0;
  const void *source = nullptr;
  size_t source_size = 0;
};

// Debug mode: ends the job if an address is not symmetric.
void check_addresses(const runtime &current, const collective_call &what);

// What the program gets: 0, or nonzero for arguments that say nothing sensible. Anything else ends
// the job.
int told(status code, const collective_call &what);

// The team of a handle; null for SHMEM_TEAM_INVALID. Debug mode: ends the job for any other that is
// no team.
team *team_of_call(const runtime &current, shmem_team_t handle, const char *call);

// And back: of teams of devices a number that kernels know, too.
shmem_team_t handle_of(const runtime &current, const team *which) noexcept;

// count * size * members; ends the job when that is more than there can be.
size_t checked_size(const char *call, size_t count, size_t size, size_t members = 1);

// Bytes from the first element to the end of the last, of `members` blocks one after another whose
// elements are `stride` >= 1 apart; ends the job when that is more than there can be.
size_t checked_extent(const char *call, const far_group::strides &shape, ptrdiff_t stride,
                      size_t members);

// Those of kernels that were made of a team.
void destroy_device_contexts(runtime &current, const team *of, const char *call);

// Operations started in the default context are complete.
void complete(runtime &current, const char *call);

}  // namespace tanada::shmem
