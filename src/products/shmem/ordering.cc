// Fence and quiet.
#include "products/shmem/access.hpp"

namespace tanada::shmem {
namespace {

[[gnu::always_inline]] inline void quiet(program_context &context, const char *call) {
  status const code = context.core.quiet();
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, nullptr, 0, int(running()->job->failed_pe())});
}

void pe_quiet(program_context &context, const char *call, const int *pes, size_t count) {
  auto const &map = running()->job->map();
  for (size_t i = 0; i < count; i++) {
    if (!map.is_pe(context.job_pe(pes[i]))) [[unlikely]]
      fatal(status::invalid, {call, nullptr, 0, pes[i]});
  }
  if (count != 0)
    quiet(context, call);
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_fence, (void), { context_of(call).core.fence(); })
SHMEM_DEFINE(void, shmem_quiet, (void), { quiet(context_of(call), call); })
SHMEM_DEFINE(void, shmem_pe_quiet, (const int *target_pes, size_t npes), {
  pe_quiet(context_of(call), call, target_pes, npes);
})

// For SHMEM_CTX_INVALID these calls are no-ops (9.12).
SHMEM_DEFINE(void, shmem_ctx_fence, (shmem_ctx_t ctx), {
  if (ctx != SHMEM_CTX_INVALID)
    context_of(ctx, call).core.fence();
})
SHMEM_DEFINE(void, shmem_ctx_quiet, (shmem_ctx_t ctx), {
  if (ctx != SHMEM_CTX_INVALID)
    quiet(context_of(ctx, call), call);
})
SHMEM_DEFINE(void, shmem_ctx_pe_quiet, (shmem_ctx_t ctx, const int *target_pes, size_t npes), {
  if (ctx != SHMEM_CTX_INVALID)
    pe_quiet(context_of(ctx, call), call, target_pes, npes);
})
