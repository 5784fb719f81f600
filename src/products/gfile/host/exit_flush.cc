// products/gfile/host/exit_flush.cc: the exit() handler that flushes the live instances.
#include "products/gfile/host/exit_flush.hpp"

#include <unistd.h>

#include <mutex>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"

namespace tanada::gfile {
namespace {

// Never destroyed: the handler runs while the process's objects are destroyed.
struct instances {
  tanada::mutex mutex;
  std::vector<session *> sessions TND_GUARDED_BY(mutex);
  // For host executor instances, for CUDA instances.
  bool is_registered[2] TND_GUARDED_BY(mutex) = {false, false};
  uint32_t later_count TND_GUARDED_BY(mutex) = 0;
  bool has_run TND_GUARDED_BY(mutex) = false;
  pid_t process = getpid();
};

constexpr uint32_t later_count_max = 32;

instances &registry() {
  static instances &instance = *new instances;
  return instance;
}

// A thread that exit() does not wait for may hold the lock indefinitely. Not a std::timed_mutex:
// the ThreadSanitizer of gcc 12 does not model its locking, and reports each unlock.
unique_lock<tanada::mutex> try_lock_for_a_second() {
  constexpr int try_count_max = 1000;
  unique_lock lock{registry().mutex, std::try_to_lock};
  for (int i = 0; i < try_count_max && !lock.owns_lock(); i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    (void)lock.try_lock();
  }
  return lock;
}

// A child of fork() has no service threads; its parent writes back the data.
void flush_all() {
  if (getpid() != registry().process)
    return;
  auto const lock = try_lock_for_a_second();
  if (!lock.owns_lock())
    return;
  registry().mutex.assert_held();
  if (std::exchange(registry().has_run, true))
    return;
  for (session *entry : registry().sessions)
    entry->flush_at_exit();
}

}  // namespace

void exit_flush::add(session &session) {
  lock_guard const lock{registry().mutex};
  registry().sessions.push_back(&session);
  if (!std::exchange(registry().is_registered[session.is_cuda() ? 1 : 0], true))
    (void)std::atexit(flush_all);
}

void exit_flush::remove(session &session) {
  lock_guard const lock{registry().mutex};
  std::erase(registry().sessions, &session);
}

void exit_flush::run_first() {
  lock_guard const lock{registry().mutex};
  if (!registry().sessions.empty() && registry().later_count++ < later_count_max)
    (void)std::atexit(flush_all);
}

}  // namespace tanada::gfile
