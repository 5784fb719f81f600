// products/shmem/runtime.hpp: the state of this process in an OpenSHMEM job, from the first init to
// the last finalize.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <compat/shmem.h>
#include <compat/shmemg/handles.h>
#include <compat/shmemg/host.h>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "onesided/job/context.hpp"
#include "onesided/job/job.hpp"

namespace tanada::shmem {

struct team;              // teams.hpp
struct collective_state;  // the collective calls' state, in control memory and beside
                          // it (collectives/)
class symmetric_heap;     // heap.hpp

// The environment's settings (section 8 of the specification; docs/shmem.md).
struct settings {
  onesided::job_options job;
  int device_support =
      0;                  // SHMEM_DEVICE_*_INIT as requested; 0: the device's settings are not read
  bool is_debug = false;  // SHMEM_DEBUG: enable checks that cost time
  bool prints_info = false;     // SHMEM_INFO
  bool prints_version = false;  // SHMEM_VERSION

  // invalid: a value is malformed; the message names the variable.
  status read_environment();
  // Prints to stdout what SHMEM_VERSION and SHMEM_INFO request.
  void print() const;
};

// The object behind a shmem_ctx_t. SHMEM_CTX_DEFAULT stands for `runtime::default_context`.
//
// Thread safety: that of onesided::context, so SHMEM_THREAD_MULTIPLE whatever the options are.
struct program_context {
  // `queue`: a queue of the job's device; null if the job has none.
  program_context(const onesided::job &owner,
                  onesided::lane *endpoint,
                  std::unique_ptr<seams::device_queue> queue)
      : core{owner.map(), endpoint, std::move(queue), false, owner.staging()}, lane{endpoint} {}

  // Returns the PE's number in the job; -1 if the context's team has no such PE.
  onesided::pe_index job_pe(int pe) const noexcept {
    if (job_pes == nullptr) [[likely]]
      return pe;
    return uint32_t(pe) < pe_count ? job_pes[pe] : -1;
  }

  onesided::context core;
  onesided::lane *lane;                         // null: all PEs are mapped
  const onesided::pe_index *job_pes = nullptr;  // by number in the team; null: as in the job
  uint32_t pe_count = 0;                        // entries of job_pes
  long options = 0;                             // as passed to shmem_ctx_create
  team *owner_team = nullptr;                   // null: the world
};

// Storage of a context that the program created; its address is the handle. The storage outlives
// the context for a while, so that later uses of a stale handle are detected.
class context_storage {
 public:
  static context_storage *from_handle(shmem_ctx_t handle) noexcept {
    return reinterpret_cast<context_storage *>(handle);
  }

  program_context *get() noexcept {
    return std::launder(reinterpret_cast<program_context *>(bytes_));
  }
  shmem_ctx_t handle() noexcept {
    return reinterpret_cast<shmem_ctx_t>(this);
  }
  bool is_live() const noexcept {
    return is_live_.load(std::memory_order_relaxed);
  }

  template <class... Arguments>
  program_context *construct(Arguments &&...arguments) {
    TND_ASSERT(!is_live());
    auto *const context = new (bytes_) program_context(std::forward<Arguments>(arguments)...);
    is_live_.store(true, std::memory_order_relaxed);
    return context;
  }
  void destroy() noexcept {
    TND_ASSERT(is_live());
    is_live_.store(false, std::memory_order_relaxed);
    get()->~program_context();
  }

 private:
  alignas(program_context) std::byte bytes_[sizeof(program_context)];
  std::atomic<bool> is_live_{false};
};

// Created by the first init, destroyed by the last finalize.
//
// Thread safety: any thread may read it. `contexts_mutex` guards the lists of contexts, and the
// heaps have their own mutex. init and finalize are serialized.
struct runtime {
  struct parts {
    std::unique_ptr<seams::bootstrap> launcher;
    std::unique_ptr<seams::gpu> device;
    std::unique_ptr<onesided::job> job;
    onesided::lane *endpoint = nullptr;
    std::unique_ptr<seams::device_queue> queue, poll_queue;
  };
  runtime(parts components, const settings &chosen);
  ~runtime();

  std::unique_ptr<seams::bootstrap> launcher;  // outlives the job
  std::unique_ptr<seams::gpu> device;  // outlives the job; null: no memory of a device is symmetric
  std::unique_ptr<onesided::job> job;
  program_context default_context;  // used by all calls without a context argument
  settings options;
  int thread_level = SHMEM_THREAD_SINGLE;  // the level provided
  uint32_t init_count = 1;                 // outstanding finalizes
  std::atomic<bool> has_forked{false};     // a child process may store into memory that PEs share

  std::unique_ptr<symmetric_heap> heap;
  std::unique_ptr<symmetric_heap>
      device_heap;  // null without a device; the host does not access its memory
  std::unique_ptr<onesided::context>
      poll_context;        // reads device memory for waiting threads; null without a device
  int device_support = 0;  // SHMEM_DEVICE_*_INIT as provided

  mutex contexts_mutex;
  std::vector<std::unique_ptr<context_storage>> contexts
      TND_GUARDED_BY(contexts_mutex);  // created by the program and not yet destroyed
  std::deque<std::unique_ptr<context_storage>> ended_contexts
      TND_GUARDED_BY(contexts_mutex);  // reused, the oldest first

  struct device_context {
    shmem_ctx_t handle;
    const team *owner_team;
  };
  std::vector<device_context> device_contexts TND_GUARDED_BY(contexts_mutex);  // for kernels

  // Waits until the context is quiet, then destroys it. Returns false if there is no such context.
  bool destroy_context(shmem_ctx_t handle, const char *call);
  bool has_context(shmem_ctx_t handle);

  // Owned by teams.cc and collectives/. Null until start_teams.
  team *world = nullptr, *shared = nullptr, *device_world = nullptr, *device_shared = nullptr;
  collective_state *coordination = nullptr;
};

// Null before the first init and after the last finalize.
extern constinit runtime *current_runtime;
inline runtime *running() noexcept {
  return current_runtime;
}

// Returns the running runtime. If no job is running, ends the process with a message that names the
// call.
[[noreturn, gnu::cold]] void not_running(const char *call) noexcept;
inline runtime &require_running(const char *call) noexcept {
  if (current_runtime == nullptr) [[unlikely]]
    not_running(call);
  return *current_runtime;
}

// Defined in lifecycle.cc. Registers another exit handler, so that a job still running at exit ends
// before the exit handlers of libraries loaded so far.
void end_before_later_libraries() noexcept;

// Functions of teams.cc and collectives/ that other files use.
//
// Returns the control memory that each PE needs, in bytes.
size_t control_size(onesided::pe_index pe_count) noexcept;
// Collective: creates the world and shared teams and `coordination`. The job is running, and its
// control memory is zero.
status start_teams(runtime &current);
// Destroys all teams. All PEs have completed their last barrier.
void stop_teams(runtime &current) noexcept;
// Handles of teams and contexts below this value are numbers, not addresses.
inline constexpr uintptr_t team_number_end = 4096;

struct team_view {
  const onesided::pe_index
      *job_pes;  // PE numbers in the job, indexed by team member; valid while the team exists
  uint32_t pe_count;
};
team_view view_of(const team &team_ref) noexcept;

// Returns null for SHMEM_TEAM_INVALID and for device teams that do not exist. Any other invalid
// handle is a program error, which teams.cc detects in debug mode.
team *device_team_of(const runtime &current, shmem_team_t handle) noexcept;
inline team *team_of(const runtime &current, shmem_team_t handle) noexcept {
  if (handle == SHMEM_TEAM_WORLD)
    return current.world;
  if (handle == SHMEM_TEAM_SHARED)
    return current.shared;
  if (reinterpret_cast<uintptr_t>(handle) < team_number_end)
    return device_team_of(current, handle);
  return reinterpret_cast<team *>(handle);
}

// Returns true for memory that the host does not access by loads and stores.
inline bool is_device_memory(const runtime &current, const void *addr) noexcept {
  return current.job->map().is_device_memory(addr);
}

// Returns the address by which this PE loads and stores the memory: its kernels for device memory,
// otherwise the host. Null if the memory is not mapped.
inline std::byte *mapped_address(const onesided::symmetric_address &location,
                                 onesided::pe_index pe) noexcept {
  return location.segment_ptr != nullptr && location.is_device() ? location.device_addr(pe)
                                                                 : location.mapped;
}

// Debug mode only: ends the job with a message unless `value` is equal in all members of the team
// (null: the world). Collective over the team.
void require_equal(
    runtime &current, team *team_ptr, const char *call, const char *argument, uint64_t value);

}  // namespace tanada::shmem
