// Teams as programs call them (section 9.4).
#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/define.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

int context_count(const shmem_team_config_t *config, long mask) {
  return config != nullptr && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 ? config->num_contexts : 0;
}

// Of a new team: known to kernels, too, where it is of devices. `which` null: this PE is not in it.
shmem_team_t new_handle(runtime &current, const char *call, team *which) {
  if (which == nullptr)
    return SHMEM_TEAM_INVALID;
  if (which->is_of_devices() && (current.device_support & SHMEM_DEVICE_KERNEL_INIT) != 0) {
    status const code =
        device_team_add(current, which->slot(), {which->members().pes, which->me()});
    if (code != status::ok)
      fatal(call, "kernels cannot be told of the team: %s", last_message().c_str());
  }
  return handle_of(current, which);
}

// Contexts that were made of a team go with it.
void destroy_contexts(runtime &current, const team *of, const char *call) {
  std::vector<shmem_ctx_t> theirs;
  {
    lock_guard const lock{current.contexts_mutex};
    for (auto const &each : current.contexts) {
      if (each->get()->of == of)
        theirs.push_back(each->handle());
    }
  }
  for (shmem_ctx_t const each : theirs)
    current.destroy_context(each, call);
  destroy_device_contexts(current, of, call);
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(int, shmem_team_my_pe, (shmem_team_t handle), {
  auto const *const of = team_of_call(require_running(call), handle, call);
  return of == nullptr ? -1 : of->me();
})

SHMEM_DEFINE(int, shmem_team_n_pes, (shmem_team_t handle), {
  auto const *const of = team_of_call(require_running(call), handle, call);
  return of == nullptr ? -1 : of->count();
})

SHMEM_DEFINE(int, shmem_team_get_config,
             (shmem_team_t handle, long config_mask, shmem_team_config_t *config), {
               auto const *const of = team_of_call(require_running(call), handle, call);
               if (of == nullptr)
                 return 1;
               if ((config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 && config != nullptr)
                 config->num_contexts = of->context_count();
               return 0;
             })

SHMEM_DEFINE(int, shmem_team_translate_pe, (shmem_team_t from, int pe, shmem_team_t to), {
  auto const &current = require_running(call);
  auto const *const source = team_of_call(current, from, call);
  auto const *const target = team_of_call(current, to, call);
  if (source == nullptr || target == nullptr)
    return -1;
  auto const world = source->pe_of(pe);
  return world < 0 ? -1 : target->member_of(world);
})

SHMEM_DEFINE(int, shmem_team_split_strided,
             (shmem_team_t parent, int start, int stride, int size,
              const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team),
             {
               auto &current = require_running(call);
               *new_team = SHMEM_TEAM_INVALID;
               auto *const of = team_of_call(current, parent, call);
               if (of == nullptr)
                 return 1;
               team_set::stride const which{.start = start, .step = stride, .count = size};
               auto made = current.coordination->teams.split(*of, which,
                                                             context_count(config, config_mask));
               if (!made.ok())
                 return told(made.error(), {call});
               *new_team = new_handle(current, call, made.value());
               return 0;
             })

SHMEM_DEFINE(int, shmem_team_split_2d,
             (shmem_team_t parent, int xrange, const shmem_team_config_t *xaxis_config,
              long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
              long yaxis_mask, shmem_team_t *yaxis_team),
             {
               auto &current = require_running(call);
               *xaxis_team = SHMEM_TEAM_INVALID;
               *yaxis_team = SHMEM_TEAM_INVALID;
               auto *const of = team_of_call(current, parent, call);
               if (of == nullptr)
                 return 1;
               auto made = current.coordination->teams.split_2d(
                   *of, xrange, context_count(xaxis_config, xaxis_mask),
                   context_count(yaxis_config, yaxis_mask));
               if (!made.ok())
                 return told(made.error(), {call});
               *xaxis_team = new_handle(current, call, made.value().row);
               *yaxis_team = new_handle(current, call, made.value().column);
               return 0;
             })

SHMEM_DEFINE(void, shmem_team_destroy, (shmem_team_t handle), {
  auto &current = require_running(call);
  auto *const of = team_of_call(current, handle, call);
  if (of == nullptr)
    return;
  if (of == current.world || of == current.shared) {
    fatal(call, "%s cannot be destroyed",
          of == current.world ? "SHMEM_TEAM_WORLD" : "SHMEM_TEAM_SHARED");
  }
  if (of == current.device_world || of == current.device_shared) {
    fatal(call, "%s cannot be destroyed",
          of == current.device_world ? "SHMEM_DEVICE_TEAM_WORLD" : "SHMEM_DEVICE_TEAM_SHARED");
  }
  destroy_contexts(current, of, call);
  if (of->is_of_devices() && (current.device_support & SHMEM_DEVICE_KERNEL_INIT) != 0) {
    static_cast<void>(device_team_remove(current, of->slot()));
  }
  static_cast<void>(told(current.coordination->teams.destroy(of), {call}));
})

SHMEM_DEFINE(void *, shmem_team_ptr, (shmem_team_t handle, const void *dest, int pe), {
  auto const &current = require_running(call);
  auto const *const of = team_of_call(current, handle, call);
  auto const world = of == nullptr ? -1 : of->pe_of(pe);
  return world < 0 ? nullptr : loads_and_stores(current.job->map().locate(dest, 1, world), world);
})
