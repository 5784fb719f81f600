// products/shmem/device_side.hpp: the host's side of src/products/shmem/device: what kernels see of
// the job, and the service that carries out their requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <compat/shmemg/handles.h>

#include "core/base/result.hpp"
#include "onesided/job/job.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::shmem {

struct runtime;

// Before the job starts: returns the executor that the program's kernels were compiled for, cuda or
// host, or automatic if it has no kernels. invalid, with a message: it has kernels for both.
result<seams::gpu_choice> device_choice();

// Wakes kernels on the host executor that wait for an answer.
void wake_kernels() noexcept;

// Returns the device control memory that each PE needs: onesided::job_options::device_control_size.
size_t device_control_size(onesided::pe_index pe_count) noexcept;

// With SHMEM_DEVICE_KERNEL_INIT, after the job has started with a device (job_options::device, in
// runtime::options.job): creates the view, passes it to all kernel modules, and starts the service.
// Only the two predefined teams exist yet. Not collective, but all PEs must call it.
status device_start(runtime &current);
// No kernel runs any more in any PE. A no-op if device_start() was not called.
void device_stop(runtime &current) noexcept;

// In kernels, teams and contexts are numbers that index tables. The first are
// SHMEM_DEVICE_TEAM_WORLD and _SHARED.
inline constexpr uintptr_t device_team_first = 3, device_context_first = 2;
inline constexpr size_t device_team_slots = 64, device_context_count_max = 256;
// Converts between a team's handle and its slot, 0 to device_team_slots - 1, which is the same in
// all members.
inline shmem_team_t device_team_handle(size_t slot) noexcept {
  return reinterpret_cast<shmem_team_t>(device_team_first + 2 + slot);
}
inline bool is_device_team(shmem_team_t handle) noexcept {
  auto const number = reinterpret_cast<uintptr_t>(handle);
  return number >= device_team_first && number < device_team_first + 2 + device_team_slots;
}
inline size_t device_team_slot(shmem_team_t handle) noexcept {  // not for the two predefined ones
  return size_t(reinterpret_cast<uintptr_t>(handle) - device_team_first - 2);
}

// The members of a team: their PE numbers in the job by member, and this PE's member number.
struct device_members {
  std::span<const onesided::pe_index> pes;
  int me;
};

// Called in each member before it launches a kernel that uses the team. The slot is free in all
// members.
status device_team_add(runtime &current, size_t slot, const device_members &members);
// No kernel in any member uses the team. The slot is free again when all members have returned.
status device_team_remove(runtime &current, size_t slot);

// Creates a device context of a team's PEs. no_space: device_context_count_max - 1 exist already.
result<shmem_ctx_t> device_context_add(runtime &current, const device_members &members);
status device_context_remove(runtime &current, shmem_ctx_t handle);
inline bool is_device_context(shmem_ctx_t handle) noexcept {
  auto const number = reinterpret_cast<uintptr_t>(handle);
  return number >= device_context_first && number < device_context_first + device_context_count_max;
}

// Called by every host call that waits or that ends a phase (barriers, waits, finalize). If a
// kernel has recorded a fault, ends the job with a message that names the device call. Cheap: one
// load of host memory.
void device_check(runtime &current, const char *call);

}  // namespace tanada::shmem
