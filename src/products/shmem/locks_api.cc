// The lock calls (section 9.13).
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/define.hpp"
#include "products/shmem/locks.hpp"
#include "products/shmem/wait.hpp"

namespace tanada::shmem {
namespace {

static_assert(sizeof(long) == sizeof(uint64_t));

lock lock_at(const runtime &current, const char *call, long *word) {
  if (is_device_memory(current, word)) {
    fatal(call,
          "address {} is device memory: locks must be in host memory",
          static_cast<void *>(word));
  }
  auto &state = *current.coordination;
  channel_ref const channel{
      current.job.get(), &state.context, &state.context, &state.teams.guard_for(call)};
  return lock{channel, reinterpret_cast<uint64_t *>(word)};
}

void check(status code, const char *call, const long *word) {
  if (code == status::ok) [[likely]]
    return;
  auto const &job = *running()->job;
  fatal(code, {call, word, sizeof *word, int(job.failed_pe() >= 0 ? job.failed_pe() : job.me())});
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_set_lock, (long *word), {
  auto const &current = require_running(call);
  check(lock_at(current, call, word).acquire(), call, word);
})

SHMEM_DEFINE(int, shmem_test_lock, (long *word), {
  auto &current = require_running(call);
  auto got = lock_at(current, call, word).try_acquire();
  check(got.error(), call, word);
  if (!got.value())
    after_failed_test(current);
  return got.value() ? 0 : 1;
})

SHMEM_DEFINE(void, shmem_clear_lock, (long *word), {
  auto &current = require_running(call);
  complete(current, call);
  check(lock_at(current, call, word).release(), call, word);
})
