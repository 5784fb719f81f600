// products/shmem/runtime.hpp: what this process is in an OpenSHMEM job between the first init and
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

#include "core/base/mutex.hpp"
#include "onesided/job/context.hpp"
#include "onesided/job/job.hpp"

namespace tanada::shmem {

struct team;           // teams.hpp
struct collectives;    // collectives/: what the collective calls keep between them, in the control
                       // memory and beside it
class symmetric_heap;  // heap.hpp

// The environment's settings (section 8 of the specification; docs/shmem.md).
struct settings {
  pgas::job_options job;
  int device_support =
      0;  // SHMEM_DEVICE_*_INIT: what was asked for; the device's settings are read with it alone
  bool is_debug = false;        // SHMEM_DEBUG: checks that cost time
  bool prints_info = false;     // SHMEM_INFO
  bool prints_version = false;  // SHMEM_VERSION

  // invalid, with a message that names the variable.
  status read_environment();
  // What SHMEM_VERSION and SHMEM_INFO ask for, to stdout.
  void print() const;
};

// What a shmem_ctx_t points to; SHMEM_CTX_DEFAULT stands for runtime::initial.
//
// Thread safety: as pgas::context, so that of SHMEM_THREAD_MULTIPLE whatever the options say.
struct communication {
  // `queue`: of the job's device, if it has one.
  communication(const pgas::job &owner, pgas::lane *endpoint,
                std::unique_ptr<port::device_queue> queue)
      : core{owner.map(), endpoint, std::move(queue), false, owner.staging()}, lane{endpoint} {}

  // The PE's number in the job; -1, which is nobody's, if the context's team has no such PE.
  pgas::pe_index world(int pe) const noexcept {
    if (world_pes == nullptr) [[likely]]
      return pe;
    return uint32_t(pe) < pe_count ? world_pes[pe] : -1;
  }

  pgas::context core;
  pgas::lane *lane;                           // null: all PEs are mapped
  const pgas::pe_index *world_pes = nullptr;  // by number in the team; null: as in the job
  uint32_t pe_count = 0;                      // entries of world_pes
  long options = 0;                           // SHMEM_CTX_*
  team *of = nullptr;                         // null: the world
};

// Where a context of the program lies, whose address is the handle. It stays for a while after the
// context's end, so that a handle that is used later is found to be stale.
class context_storage {
 public:
  static context_storage *of(shmem_ctx_t handle) noexcept {
    return reinterpret_cast<context_storage *>(handle);
  }

  communication *get() noexcept {
    return std::launder(reinterpret_cast<communication *>(bytes_));
  }
  shmem_ctx_t handle() noexcept {
    return reinterpret_cast<shmem_ctx_t>(this);
  }
  bool is_live() const noexcept {
    return is_live_.load(std::memory_order_relaxed);
  }

  template <class... Arguments>
  communication *construct(Arguments &&...arguments) {
    auto *const made = new (bytes_) communication(std::forward<Arguments>(arguments)...);
    is_live_.store(true, std::memory_order_relaxed);
    return made;
  }
  void destroy() noexcept {
    is_live_.store(false, std::memory_order_relaxed);
    get()->~communication();
  }

 private:
  alignas(communication) std::byte bytes_[sizeof(communication)];
  std::atomic<bool> is_live_{false};
};

// Made by the first init, destroyed by the last finalize.
//
// Thread safety: read by any thread; `contexts` under its mutex; the heap under its own. init and
// finalize come one at a time.
struct runtime {
  struct parts {
    std::unique_ptr<port::bootstrap> launcher;
    std::unique_ptr<port::gpu> device;
    std::unique_ptr<pgas::job> job;
    pgas::lane *endpoint = nullptr;
    std::unique_ptr<port::device_queue> queue, looks;
  };
  runtime(parts made, const settings &chosen);
  ~runtime();

  std::unique_ptr<port::bootstrap> launcher;  // outlives the job
  std::unique_ptr<port::gpu> device;  // outlives the job; null: no memory of a device is symmetric
  std::unique_ptr<pgas::job> job;
  communication initial;  // of all calls without a context
  settings options;
  int thread_level = SHMEM_THREAD_SINGLE;  // what was provided
  uint32_t init_count = 1;                 // finalizes that are still to come
  std::atomic<bool> has_forked{false};     // a child may store into memory that PEs share

  std::unique_ptr<symmetric_heap> heap;
  std::unique_ptr<symmetric_heap>
      device_heap;  // null without a device; the host touches none of it
  std::unique_ptr<pgas::context>
      looks;               // reads device memory for those that wait; null without a device
  int device_support = 0;  // SHMEM_DEVICE_*_INIT: what there is

  mutex contexts_mutex;
  std::vector<std::unique_ptr<context_storage>>
      contexts;  // that programs made and have not destroyed
  std::deque<std::unique_ptr<context_storage>> ended_contexts;  // used again, the oldest first

  struct device_context {
    shmem_ctx_t handle;
    const team *of;
  };
  std::vector<device_context> device_contexts;  // that kernels use; under the same mutex

  // Quiet, and destroyed. False: there is none.
  bool destroy_context(shmem_ctx_t handle, const char *call);
  bool has_context(shmem_ctx_t handle);

  // Of teams.cc and collectives/. Null until start_teams.
  team *world = nullptr, *shared = nullptr, *device_world = nullptr, *device_shared = nullptr;
  collectives *coordination = nullptr;
};

// Null before the first init and after the last finalize.
extern constinit runtime *current_runtime;
inline runtime *running() noexcept {
  return current_runtime;
}

// The running one; ends the process with a message that names the call if there is none.
[[noreturn, gnu::cold]] void not_running(const char *call) noexcept;
inline runtime &require_running(const char *call) noexcept {
  if (current_runtime == nullptr) [[unlikely]]
    not_running(call);
  return *current_runtime;
}

// Of lifecycle.cc: a job that the program does not end is ended at exit before what libraries that
// are there by now do then.
void end_before_later_libraries() noexcept;

// What teams.cc has for the others.
//
// Bytes of control memory that each PE needs.
size_t control_size(pgas::pe_index pe_count) noexcept;
// Collective: make world and shared, and `coordination`. The job runs; control memory is zeros.
status start_teams(runtime &made);
// All PEs are past their last barrier. Destroys all teams.
void stop_teams(runtime &ended) noexcept;
// Handles of teams and of contexts below this are numbers, not addresses.
inline constexpr uintptr_t team_number_end = 4096;

struct team_view {
  const pgas::pe_index
      *world_pes;  // by number in the team: the number in the job; lives as long as the team
  uint32_t pe_count;
};
team_view view_of(const team &which) noexcept;

// Null for SHMEM_TEAM_INVALID, and for teams of devices that there are not. Any other handle that
// is no team is the program's fault; teams.cc checks it in debug mode.
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

// Memory that the host does not load from or store to.
inline bool is_device_memory(const runtime &current, const void *addr) noexcept {
  return current.job->map().is_device_memory(addr);
}

// Where the host, or of device memory kernels here, reach it by loads and stores; null: they do
// not.
inline std::byte *loads_and_stores(const pgas::place &at, pgas::pe_index pe) noexcept {
  return at.where != nullptr && at.is_device() ? at.reached(pe) : at.mapped;
}

// Debug mode only: ends the job with a message unless `value` is the same in all members of the
// team (null: the world). Collective over the team.
void require_equal(runtime &current, team *of, const char *call, const char *argument,
                   uint64_t value);

}  // namespace tanada::shmem
