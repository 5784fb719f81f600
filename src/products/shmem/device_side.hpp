// products/shmem/device_side.hpp: what kernels see of the job, and who answers them: the host's
// side of src/products/shmem/device.
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

// Before the job starts: the device that the program's kernels were made for: cuda or host,
// automatic where it has none. invalid, with a message: it has both.
result<port::gpu_choice> device_choice();

// Device control memory that each PE needs: pgas::job_options::device_control_size.
size_t device_control_size(pgas::pe_index pe_count) noexcept;

// With SHMEM_DEVICE_KERNEL_INIT, after the job has started with a device (job_options::device, of
// runtime::options.job): make the view and tell all modules of kernels of it, and start who answers
// kernels. Teams: none but the two that are always there. Not collective, but all PEs do it.
status device_start(runtime &made);
// No kernel runs any more, in any PE. Nothing happens where device_start() was not called.
void device_stop(runtime &ended) noexcept;

// Teams and contexts in kernels are numbers, so that a table leads to them: SHMEM_DEVICE_TEAM_WORLD
// and _SHARED are the first.
inline constexpr uintptr_t device_team_first = 3, device_context_first = 2;
inline constexpr size_t device_team_slots = 64, device_context_count_max = 256;
// The handle of a team by its slot, 0 to device_team_slots - 1, which is the same in all its
// members, and back.
inline shmem_team_t device_team_handle(size_t slot) noexcept {
  return reinterpret_cast<shmem_team_t>(device_team_first + 2 + slot);
}
inline bool is_device_team(shmem_team_t handle) noexcept {
  auto const number = reinterpret_cast<uintptr_t>(handle);
  return number >= device_team_first && number < device_team_first + 2 + device_team_slots;
}
inline size_t device_team_slot(shmem_team_t handle) noexcept {  // not of the two first
  return size_t(reinterpret_cast<uintptr_t>(handle) - device_team_first - 2);
}

// Who is in a team: by number in it the PE, and this PE's number.
struct device_members {
  std::span<const pgas::pe_index> pes;
  int me;
};

// Before a member launches a kernel that uses it. The slot is free in all members.
status device_team_add(runtime &current, size_t slot, const device_members &who);
// No kernel uses it in any member. The slot is free when all members have returned.
status device_team_remove(runtime &current, size_t slot);

// A context of a team's PEs; no_space: there are device_context_count_max - 1.
result<shmem_ctx_t> device_context_add(runtime &current, const device_members &who);
status device_context_remove(runtime &current, shmem_ctx_t which);
inline bool is_device_context(shmem_ctx_t handle) noexcept {
  auto const number = reinterpret_cast<uintptr_t>(handle);
  return number >= device_context_first && number < device_context_first + device_context_count_max;
}

// Every host call that waits, or that ends a phase (barriers, waits, finalize), asks: what went
// wrong in a kernel ends the job, with a message that names the device call. Cheap: one load of
// memory of the host.
void device_check(runtime &current, const char *call);

}  // namespace tanada::shmem
