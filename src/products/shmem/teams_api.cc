// The team calls (section 9.4).
#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/define.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

int context_count(const shmem_team_config_t *config, long mask) {
  return config != nullptr && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 ? config->num_contexts : 0;
}

// Returns the handle of a new team; a device team is also added to the kernels' table. `team_ptr`
// null: this PE is not in it.
shmem_team_t new_handle(runtime &current, const char *call, team *team_ptr) {
  if (team_ptr == nullptr)
    return SHMEM_TEAM_INVALID;
  if (team_ptr->is_device_team() && (current.device_support & SHMEM_DEVICE_KERNEL_INIT) != 0) {
    status const code =
        device_team_add(current, team_ptr->slot(), {team_ptr->members().pes, team_ptr->me()});
    if (code != status::ok)
      fatal(call, "cannot add the team to the kernels' table: {}", last_message());
  }
  return handle_of(current, team_ptr);
}

// Destroys the contexts that were created from a team.
void destroy_contexts(runtime &current, const team *team_ptr, const char *call) {
  std::vector<shmem_ctx_t> handles;
  {
    lock_guard const lock{current.contexts_mutex};
    for (auto const &storage : current.contexts) {
      if (storage->get()->owner_team == team_ptr)
        handles.push_back(storage->handle());
    }
  }
  for (shmem_ctx_t const handle : handles)
    current.destroy_context(handle, call);
  destroy_device_contexts(current, team_ptr, call);
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(int, shmem_team_my_pe, (shmem_team_t handle), {
  auto const *const team_ptr = team_of_call(require_running(call), handle, call);
  return team_ptr == nullptr ? -1 : team_ptr->me();
})

SHMEM_DEFINE(int, shmem_team_n_pes, (shmem_team_t handle), {
  auto const *const team_ptr = team_of_call(require_running(call), handle, call);
  return team_ptr == nullptr ? -1 : team_ptr->count();
})

SHMEM_DEFINE(int,
             shmem_team_get_config,
             (shmem_team_t handle, long config_mask, shmem_team_config_t *config),
             {
               auto const *const team_ptr = team_of_call(require_running(call), handle, call);
               if (team_ptr == nullptr)
                 return 1;
               if ((config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 && config != nullptr)
                 config->num_contexts = team_ptr->context_count();
               return 0;
             })

SHMEM_DEFINE(int,
             shmem_team_translate_pe,
             (shmem_team_t src_team, int pe, shmem_team_t dest_team),
             {
               auto const &current = require_running(call);
               auto const *const source = team_of_call(current, src_team, call);
               auto const *const target = team_of_call(current, dest_team, call);
               if (source == nullptr || target == nullptr)
                 return -1;
               auto const world = source->pe_of(pe);
               return world < 0 ? -1 : target->member_of(world);
             })

SHMEM_DEFINE(int,
             shmem_team_split_strided,
             (shmem_team_t parent,
              int start,
              int stride,
              int size,
              const shmem_team_config_t *config,
              long config_mask,
              shmem_team_t *new_team),
             {
               auto &current = require_running(call);
               *new_team = SHMEM_TEAM_INVALID;
               auto *const team_ptr = team_of_call(current, parent, call);
               if (team_ptr == nullptr)
                 return 1;
               team_set::stride const subset{.start = start, .step = stride, .count = size};
               auto split = current.coordination->teams.split(
                   *team_ptr, subset, context_count(config, config_mask));
               if (!split.ok())
                 return return_code(split.error(), {call});
               *new_team = new_handle(current, call, split.value());
               return 0;
             })

SHMEM_DEFINE(int,
             shmem_team_split_2d,
             (shmem_team_t parent,
              int xrange,
              const shmem_team_config_t *xaxis_config,
              long xaxis_mask,
              shmem_team_t *xaxis_team,
              const shmem_team_config_t *yaxis_config,
              long yaxis_mask,
              shmem_team_t *yaxis_team),
             {
               auto &current = require_running(call);
               *xaxis_team = SHMEM_TEAM_INVALID;
               *yaxis_team = SHMEM_TEAM_INVALID;
               auto *const team_ptr = team_of_call(current, parent, call);
               if (team_ptr == nullptr)
                 return 1;
               auto split =
                   current.coordination->teams.split_2d(*team_ptr,
                                                        xrange,
                                                        context_count(xaxis_config, xaxis_mask),
                                                        context_count(yaxis_config, yaxis_mask));
               if (!split.ok())
                 return return_code(split.error(), {call});
               *xaxis_team = new_handle(current, call, split.value().row);
               *yaxis_team = new_handle(current, call, split.value().column);
               return 0;
             })

SHMEM_DEFINE(void, shmem_team_destroy, (shmem_team_t handle), {
  auto &current = require_running(call);
  auto *const team_ptr = team_of_call(current, handle, call);
  if (team_ptr == nullptr)
    return;
  if (team_ptr == current.world || team_ptr == current.shared) {
    fatal(call,
          "{} cannot be destroyed",
          team_ptr == current.world ? "SHMEM_TEAM_WORLD" : "SHMEM_TEAM_SHARED");
  }
  if (team_ptr == current.device_world || team_ptr == current.device_shared) {
    fatal(
        call,
        "{} cannot be destroyed",
        team_ptr == current.device_world ? "SHMEM_DEVICE_TEAM_WORLD" : "SHMEM_DEVICE_TEAM_SHARED");
  }
  destroy_contexts(current, team_ptr, call);
  if (team_ptr->is_device_team() && (current.device_support & SHMEM_DEVICE_KERNEL_INIT) != 0) {
    static_cast<void>(device_team_remove(current, team_ptr->slot()));
  }
  static_cast<void>(return_code(current.coordination->teams.destroy(team_ptr), {call}));
})

SHMEM_DEFINE(void *, shmem_team_ptr, (shmem_team_t handle, const void *dest, int pe), {
  auto const &current = require_running(call);
  auto const *const team_ptr = team_of_call(current, handle, call);
  auto const world = team_ptr == nullptr ? -1 : team_ptr->pe_of(pe);
  return world < 0 ? nullptr : mapped_address(current.job->map().locate(dest, 1, world), world);
})
