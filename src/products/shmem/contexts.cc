// Contexts that programs make. A session is a hint: nothing is done with it.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/access.hpp"
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

// Handles of contexts that have ended are recognized until so many more have.
constexpr size_t ended_count_max = 64;

std::unique_ptr<context_storage> take_storage(runtime &current) {
  lock_guard const lock{current.contexts_mutex};
  if (current.ended_contexts.size() < ended_count_max)
    return std::make_unique<context_storage>();
  auto oldest = std::move(current.ended_contexts.front());
  current.ended_contexts.pop_front();
  return oldest;
}

// SHMEM_CTX_INVALID: no endpoint or no memory was left, which has been logged.
shmem_ctx_t create(runtime &current, long options, team *of) {
  auto const lane = current.job->lane_acquire(true);
  if (!lane.ok())
    return SHMEM_CTX_INVALID;
  auto queue = current.job->device_queue_open();
  if (!queue.ok()) {
    if (result{lane}.value() != nullptr)
      current.job->lane_release(result{lane}.value());
    return SHMEM_CTX_INVALID;
  }
  auto storage = take_storage(current);
  auto *const made =
      storage->construct(*current.job, result{lane}.value(), std::move(queue).value());
  made->options = options;
  made->of = of;
  if (of != nullptr) {
    auto const view = view_of(*of);
    made->world_pes = view.world_pes;
    made->pe_count = view.pe_count;
  }
  lock_guard const lock{current.contexts_mutex};
  return current.contexts.emplace_back(std::move(storage))->handle();
}

// A context of kernels has no endpoint: they know its team, and all else is theirs.
int create_for_kernels(runtime &current, const char *call, const team *of, shmem_ctx_t *ctx) {
  *ctx = SHMEM_CTX_INVALID;
  const char *const lacks = (current.device_support & SHMEM_DEVICE_KERNEL_INIT) == 0
                                ? "SHMEM_DEVICE_KERNEL_INIT was not provided"
                            : of == nullptr || !of->is_of_devices()
                                ? "the team is not one of devices"
                                : nullptr;
  if (lacks != nullptr) {
    log(log_level::warning, "%s: no context with SHMEM_DEVICE_CTX: %s", call, lacks);
    return 1;
  }
  auto made = device_context_add(current, {of->members().pes, of->me()});
  if (!made.ok())
    return 1;
  lock_guard const lock{current.contexts_mutex};
  current.device_contexts.push_back({made.value(), of});
  *ctx = made.value();
  return 0;
}

const team *team_of_kernels(runtime &current, shmem_ctx_t ctx) {
  lock_guard const lock{current.contexts_mutex};
  for (auto const &each : current.device_contexts) {
    if (each.handle == ctx)
      return each.of;
  }
  if (ctx == SHMEM_DEVICE_CTX_DEFAULT && current.device_world != nullptr)
    return current.device_world;
  fatal("shmem_ctx_get_team", "the context %p was never made, or has been destroyed",
        static_cast<void *>(ctx));
}

// False: there is none.
bool destroy_for_kernels(runtime &current, shmem_ctx_t ctx, const char *call) {
  {
    lock_guard const lock{current.contexts_mutex};
    if (std::erase_if(current.device_contexts,
                      [&](auto const &each) { return each.handle == ctx; }) == 0)
      return false;
  }
  status const code = device_context_remove(current, ctx);
  if (code != status::ok)
    fatal(code, {call, nullptr, 0, int(current.job->me())});
  return true;
}

int create_handle(runtime &current, long options, team *of, shmem_ctx_t *ctx) {
  *ctx = create(current, options, of);
  return *ctx == SHMEM_CTX_INVALID ? 1 : 0;
}

}  // namespace

bool runtime::has_context(shmem_ctx_t handle) {
  lock_guard const lock{contexts_mutex};
  return std::any_of(contexts.begin(), contexts.end(),
                     [&](auto const &each) { return each->handle() == handle; });
}

bool runtime::destroy_context(shmem_ctx_t handle, const char *call) {
  std::unique_ptr<context_storage> ended;
  {
    lock_guard const lock{contexts_mutex};
    auto const found = std::find_if(contexts.begin(), contexts.end(),
                                    [&](auto const &each) { return each->handle() == handle; });
    if (found == contexts.end())
      return false;
    ended = std::move(*found);
    contexts.erase(found);
  }
  status const code = ended->get()->core.quiet();
  if (code != status::ok)
    fatal(code, {call, nullptr, 0, int(job->lost())});
  pgas::lane *const lane = ended->get()->lane;
  ended->destroy();
  if (lane != nullptr)
    job->lane_release(lane);
  lock_guard const lock{contexts_mutex};
  ended_contexts.push_back(std::move(ended));
  return true;
}

void destroy_device_contexts(runtime &current, const team *of, const char *call) {
  std::vector<shmem_ctx_t> theirs;
  {
    lock_guard const lock{current.contexts_mutex};
    for (auto const &each : current.device_contexts) {
      if (each.of == of)
        theirs.push_back(each.handle);
    }
  }
  for (auto const each : theirs)
    destroy_for_kernels(current, each, call);
}

void no_such_context(shmem_ctx_t handle, const char *call) noexcept {
  if (handle == SHMEM_CTX_INVALID)
    fatal(call, "the context is SHMEM_CTX_INVALID");
  if (is_device_context(handle))
    fatal(call, "the context %p is one for kernels (SHMEM_DEVICE_CTX)",
          static_cast<void *>(handle));
  fatal(call, "the context %p was never made, or has been destroyed", static_cast<void *>(handle));
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
  auto *const of = team_of_call(current, team, call);
  if (of == nullptr) {
    *ctx = SHMEM_CTX_INVALID;
    return 1;
  }
  if ((options & SHMEM_DEVICE_CTX) != 0)
    return create_for_kernels(current, call, of, ctx);
  return create_handle(current, options, of == current.world ? nullptr : of, ctx);
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
      fatal(call, "the context %p was never made, or has been destroyed", static_cast<void *>(ctx));
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
  auto const *const of =
      is_device_context(ctx) ? team_of_kernels(current, ctx) : context_of(ctx, call).of;
  *team = of == nullptr ? SHMEM_TEAM_WORLD : handle_of(current, of);
  return 0;
})

SHMEM_DEFINE(void, shmem_ctx_session_start,
             (shmem_ctx_t ctx, long, const shmem_ctx_session_config_t *, long), {
               if (ctx != SHMEM_CTX_INVALID)
                 static_cast<void>(context_of(ctx, call));
             })
SHMEM_DEFINE(void, shmem_ctx_session_stop, (shmem_ctx_t ctx), {
  if (ctx != SHMEM_CTX_INVALID)
    static_cast<void>(context_of(ctx, call));
})
