// Locks as programs call them (section 9.13).
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/define.hpp"
#include "products/shmem/locks.hpp"
#include "products/shmem/wait.hpp"

namespace tanada::shmem {
namespace {

static_assert(sizeof(long) == sizeof(uint64_t));

lock lock_at(const runtime &current, const char *call, long *word) {
  if (is_device_memory(current, word)) {
    fatal(call, "address %p is memory of the device: locks are in memory of the host",
          static_cast<void *>(word));
  }
  auto &kept = *current.coordination;
  wires const by{current.job.get(), &kept.context, &kept.context, &kept.teams.desertion(call)};
  return lock{by, reinterpret_cast<uint64_t *>(word)};
}

void check(status code, const char *call, const long *word) {
  if (code == status::ok) [[likely]]
    return;
  auto const &job = *running()->job;
  fatal(code, {call, word, sizeof *word, int(job.lost() >= 0 ? job.lost() : job.me())});
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
    between_tests(current);
  return got.value() ? 0 : 1;
})

SHMEM_DEFINE(void, shmem_clear_lock, (long *word), {
  auto &current = require_running(call);
  complete(current, call);
  check(lock_at(current, call, word).release(), call, word);
})
