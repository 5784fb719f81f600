// Contexts that programs create. A session is a hint, and has no effect.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/access.hpp"
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

// A stale handle is recognized until this many more contexts have been destroyed.
constexpr size_t ended_count_max = 64;

std::unique_ptr<context_storage> take_storage(runtime &current) {
  lock_guard const lock{current.contexts_mutex};
  if (current.ended_contexts.size() < ended_count_max)
    return std::make_unique<context_storage>();
  auto oldest = std::move(current.ended_contexts.front());
  current.ended_contexts.pop_front();
  TND_ASSERT(!oldest->is_live());
  return oldest;
}

// SHMEM_CTX_INVALID: no endpoint is free, or memory is insufficient. The reason has been logged.
shmem_ctx_t create(runtime &current, long options, team *team_ptr) {
  auto acquired = current.job->lane_acquire(true);
  if (!acquired.ok())
    return SHMEM_CTX_INVALID;
  onesided::lane *const lane = acquired.value();
  auto queue = current.job->device_queue_open();
  if (!queue.ok()) {
    if (lane != nullptr)
      current.job->lane_release(lane);
    return SHMEM_CTX_INVALID;
  }
  auto storage = take_storage(current);
  auto *const context = storage->construct(*current.job, lane, std::move(queue).value());
  context->options = options;
  context->owner_team = team_ptr;
  if (team_ptr != nullptr) {
    auto const view = view_of(*team_ptr);
    context->job_pes = view.job_pes;
    context->pe_count = view.pe_count;
  }
  lock_guard const lock{current.contexts_mutex};
  return current.contexts.emplace_back(std::move(storage))->handle();
}

// A context for kernels has no endpoint of its own: it is an entry in the kernels' table, which
// names its PEs.
int create_for_kernels(runtime &current, const char *call, const team *team_ptr, shmem_ctx_t *ctx) {
  *ctx = SHMEM_CTX_INVALID;
  const char *const lacks = (current.device_support & SHMEM_DEVICE_KERNEL_INIT) == 0
                                ? "SHMEM_DEVICE_KERNEL_INIT was not provided"
                            : team_ptr == nullptr || !team_ptr->is_device_team()
                                ? "the team is not a device team"
                                : nullptr;
  if (lacks != nullptr) {
    log(log_level::warning, "{}: cannot create a context with SHMEM_DEVICE_CTX: {}", call, lacks);
    return 1;
  }
  auto handle = device_context_add(current, {team_ptr->members().pes, team_ptr->me()});
  if (!handle.ok())
    return 1;
  lock_guard const lock{current.contexts_mutex};
  current.device_contexts.push_back({handle.value(), team_ptr});
  *ctx = handle.value();
  return 0;
}

const team *team_of_kernels(runtime &current, shmem_ctx_t ctx) {
  lock_guard const lock{current.contexts_mutex};
  for (auto const &entry : current.device_contexts) {
    if (entry.handle == ctx)
      return entry.owner_team;
  }
  if (ctx == SHMEM_DEVICE_CTX_DEFAULT && current.device_world != nullptr)
    return current.device_world;
  fatal("shmem_ctx_get_team",
        "the context {} was never made, or has been destroyed",
        static_cast<void *>(ctx));
}

// Returns false if there is no such context.
bool destroy_for_kernels(runtime &current, shmem_ctx_t ctx, const char *call) {
  {
    lock_guard const lock{current.contexts_mutex};
    if (std::erase_if(current.device_contexts,
                      [&](auto const &entry) { return entry.handle == ctx; }) == 0)
      return false;
  }
  status const code = device_context_remove(current, ctx);
  if (code != status::ok)
    fatal(code, {call, nullptr, 0, int(current.job->me())});
  return true;
}

int create_handle(runtime &current, long options, team *team_ptr, shmem_ctx_t *ctx) {
  *ctx = create(current, options, team_ptr);
  return *ctx == SHMEM_CTX_INVALID ? 1 : 0;
}

}  // namespace

bool runtime::has_context(shmem_ctx_t handle) {
  lock_guard const lock{contexts_mutex};
  return std::any_of(contexts.begin(), contexts.end(), [&](auto const &storage) {
    return storage->handle() == handle;
  });
}

bool runtime::destroy_context(shmem_ctx_t handle, const char *call) {
  std::unique_ptr<context_storage> ended;
  {
    lock_guard const lock{contexts_mutex};
    auto const it = std::find_if(contexts.begin(), contexts.end(), [&](auto const &storage) {
      return storage->handle() == handle;
    });
    if (it == contexts.end())
      return false;
    ended = std::move(*it);
    contexts.erase(it);
  }
  status const code = ended->get()->core.quiet();
  if (code != status::ok)
    fatal(code, {call, nullptr, 0, int(job->failed_pe())});
  onesided::lane *const lane = ended->get()->lane;
  ended->destroy();
  if (lane != nullptr)
    job->lane_release(lane);
  lock_guard const lock{contexts_mutex};
  ended_contexts.push_back(std::move(ended));
  return true;
}

void destroy_device_contexts(runtime &current, const team *team_ptr, const char *call) {
  std::vector<shmem_ctx_t> handles;
  {
    lock_guard const lock{current.contexts_mutex};
    for (auto const &entry : current.device_contexts) {
      if (entry.owner_team == team_ptr)
        handles.push_back(entry.handle);
    }
  }
  for (auto const handle : handles)
    destroy_for_kernels(current, handle, call);
}

void no_such_context(shmem_ctx_t handle, const char *call) noexcept {
  if (handle == SHMEM_CTX_INVALID)
    fatal(call, "the context is SHMEM_CTX_INVALID");
  if (is_device_context(handle))
    fatal(
        call, "the context {} is for kernels only (SHMEM_DEVICE_CTX)", static_cast<void *>(handle));
  fatal(call, "the context {} was never made, or has been destroyed", static_cast<void *>(handle));
}

}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(int, shmem_ctx_create, (long options, shmem_ctx_t *ctx), {
  auto &current = require_running(call);
  if ((options & SHMEM_DEVICE_CTX) != 0)
    return create_for_kernels(current, call, current.device_world, ctx);
  return create_handle(current, options, nullptr, ctx);
})

SHMEM_DEFINE(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t *ctx), {
  auto &current = require_running(call);
  auto *const team_ptr = team_of_call(current, team, call);
  if (team_ptr == nullptr) {
    *ctx = SHMEM_CTX_INVALID;
    return 1;
  }
  if ((options & SHMEM_DEVICE_CTX) != 0)
    return create_for_kernels(current, call, team_ptr, ctx);
  return create_handle(current, options, team_ptr == current.world ? nullptr : team_ptr, ctx);
})

SHMEM_DEFINE(void, shmem_ctx_destroy, (shmem_ctx_t ctx), {
  auto &current = require_running(call);
  if (ctx == SHMEM_CTX_INVALID)
    return;
  if (ctx == SHMEM_CTX_DEFAULT)
    fatal(call, "SHMEM_CTX_DEFAULT cannot be destroyed");
  if (ctx == SHMEM_DEVICE_CTX_DEFAULT)
    fatal(call, "SHMEM_DEVICE_CTX_DEFAULT cannot be destroyed");
  if (is_device_context(ctx)) {
    if (!destroy_for_kernels(current, ctx, call)) {
      fatal(call, "the context {} was never made, or has been destroyed", static_cast<void *>(ctx));
    }
    return;
  }
  if (!current.destroy_context(ctx, call))
    no_such_context(ctx, call);
})

SHMEM_DEFINE(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t *team), {
  auto &current = require_running(call);
  if (ctx == SHMEM_CTX_INVALID) {
    *team = SHMEM_TEAM_INVALID;
    return 1;
  }
  auto const *const team_ptr =
      is_device_context(ctx) ? team_of_kernels(current, ctx) : context_of(ctx, call).owner_team;
  *team = team_ptr == nullptr ? SHMEM_TEAM_WORLD : handle_of(current, team_ptr);
  return 0;
})

SHMEM_DEFINE(void,
             shmem_ctx_session_start,
             (shmem_ctx_t ctx, long, const shmem_ctx_session_config_t *, long),
             {
               if (ctx != SHMEM_CTX_INVALID)
                 static_cast<void>(context_of(ctx, call));
             })
SHMEM_DEFINE(void, shmem_ctx_session_stop, (shmem_ctx_t ctx), {
  if (ctx != SHMEM_CTX_INVALID)
    static_cast<void>(context_of(ctx, call));
})
