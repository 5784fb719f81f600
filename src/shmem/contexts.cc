// Contexts that programs make. A session is a hint: nothing is done with it.
#include <algorithm>

#include "base/log.hpp"
#include "shmem/access.hpp"
#include "shmem/collectives/kept.hpp"

namespace tanada::shmem {
namespace {

// nullptr: no endpoint or no memory was left, which has been logged.
communication *create(runtime &current, long options, team *of) {
  auto const lane = current.job->lane_acquire(true);
  if (!lane.ok()) return nullptr;
  auto made = std::make_unique<communication>(*current.job, result{lane}.value());
  made->options = options;
  made->of = of;
  if (of != nullptr) {
    auto const view = view_of(*of);
    made->world_pes = view.world_pes;
    made->pe_count = view.pe_count;
  }
  std::lock_guard const lock{current.contexts_mutex};
  return current.contexts.emplace_back(std::move(made)).get();
}

int create_handle(runtime &current, long options, team *of, shmem_ctx_t *ctx) {
  auto *const made = create(current, options, of);
  *ctx = made == nullptr ? SHMEM_CTX_INVALID : reinterpret_cast<shmem_ctx_t>(made);
  return made == nullptr ? 1 : 0;
}

}  // namespace

bool runtime::has_context(const communication *which) {
  std::lock_guard const lock{contexts_mutex};
  return std::any_of(contexts.begin(), contexts.end(), [&](auto const &each) { return each.get() == which; });
}

bool runtime::destroy_context(communication *which, const char *call) {
  std::unique_ptr<communication> ended;
  {
    std::lock_guard const lock{contexts_mutex};
    auto const found = std::find_if(contexts.begin(), contexts.end(), [&](auto const &each) { return each.get() == which; });
    if (found == contexts.end()) return false;
    ended = std::move(*found);
    contexts.erase(found);
  }
  status const code = ended->core.quiet();
  if (code != status::ok) fatal(code, {call, nullptr, 0, int(job->lost())});
  pgas::lane *const lane = ended->lane;
  ended.reset();
  if (lane != nullptr) job->lane_release(lane);
  return true;
}

void no_such_context(shmem_ctx_t handle, const char *call) noexcept {
  if (handle == SHMEM_CTX_INVALID) fatal(call, "the context is SHMEM_CTX_INVALID");
  fatal(call, "the context %p was never made, or has been destroyed", static_cast<void *>(handle));
}

}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(int, shmem_ctx_create, (long options, shmem_ctx_t *ctx), {
  return create_handle(require_running(call), options, nullptr, ctx);
})

SHMEM_DEFINE(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t *ctx), {
  auto &current = require_running(call);
  auto *const of = team_of_call(current, team, call);
  if (of == nullptr) {
    *ctx = SHMEM_CTX_INVALID;
    return 1;
  }
  return create_handle(current, options, of == current.world ? nullptr : of, ctx);
})

SHMEM_DEFINE(void, shmem_ctx_destroy, (shmem_ctx_t ctx), {
  auto &current = require_running(call);
  if (ctx == SHMEM_CTX_INVALID) return;
  if (ctx == SHMEM_CTX_DEFAULT) fatal(call, "SHMEM_CTX_DEFAULT cannot be destroyed");
  auto *const ended = reinterpret_cast<communication *>(ctx);
  if (!current.destroy_context(ended, call)) no_such_context(ctx, call);
})

SHMEM_DEFINE(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t *team), {
  auto &current = require_running(call);
  if (ctx == SHMEM_CTX_INVALID) {
    *team = SHMEM_TEAM_INVALID;
    return 1;
  }
  auto *const of = context_of(ctx, call).of;
  if (of == nullptr) {
    *team = SHMEM_TEAM_WORLD;
  } else {
    *team = of == current.shared ? SHMEM_TEAM_SHARED : reinterpret_cast<shmem_team_t>(of);
  }
  return 0;
})

SHMEM_DEFINE(void, shmem_ctx_session_start, (shmem_ctx_t ctx, long, const shmem_ctx_session_config_t *, long), {
  if (ctx != SHMEM_CTX_INVALID) static_cast<void>(context_of(ctx, call));
})
SHMEM_DEFINE(void, shmem_ctx_session_stop, (shmem_ctx_t ctx), {
  if (ctx != SHMEM_CTX_INVALID) static_cast<void>(context_of(ctx, call));
})
