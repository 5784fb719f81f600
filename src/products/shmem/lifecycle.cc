// Init, finalize, global exit, and programs that exit without finalize.
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/access.hpp"
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/device_init.hpp"
#include "products/shmem/device_side.hpp"
#include "products/shmem/heap.hpp"

namespace tanada::shmem {
namespace {

constinit mutex lifecycle_mutex;  // serializes init and finalize
constinit pid_t owner = 0;        // the process that called init; a forked child is not a PE

struct request {
  int thread_level;    // SHMEM_THREAD_*
  int device_support;  // SHMEM_DEVICE_*_INIT
};

// After the launcher is lost, a PE has this long to fail by itself, in a call that has a better
// message.
constexpr std::chrono::seconds launcher_grace{2};

// Called by a thread of the launcher's library. Without it, a PE that runs only the program's own
// code would never end.
void end_without_launcher(int me) {
  auto const end = [me] {
    std::this_thread::sleep_for(launcher_grace);
    std::fprintf(stderr,
                 "shmem: PE %d: lost the connection to the launcher (was it killed?); ending this "
                 "process\n",
                 me);
    std::_Exit(1);
  };
  try {
    std::thread{end}.detach();
  } catch (const std::system_error &) {
    end();
  }
}

status open_launcher(runtime::parts &parts) {
  auto launcher = seams::bootstrap_open();
  if (!launcher.ok())
    return launcher.error();
  parts.launcher = std::move(launcher).value();
  parts.launcher->watch_launcher([me = int(parts.launcher->rank())] { end_without_launcher(me); });
  return status::ok;
}

status start_job(runtime::parts &parts, settings &chosen) {
  TND_ASSERT(parts.launcher != nullptr);
  chosen.job.control_size = control_size(parts.launcher->count());
  if (chosen.device_support != 0) {
    auto device = choose_device(*parts.launcher);
    if (!device.ok())
      return device.error();
    parts.device = std::move(device).value();
    chosen.job.device = parts.device.get();
    chosen.job.device_control_size = device_control_size(parts.launcher->count());
  }
  auto job = onesided::job::start(*parts.launcher, chosen.job);
  if (!job.ok())
    return job.error();
  parts.job = std::move(job).value();
  return status::ok;
}

// From here on a failure ends the job, because other PEs may have started already.
void acquire_endpoint(const char *call, runtime::parts &parts) {
  TND_ASSERT(parts.job != nullptr);
  auto const lane = parts.job->lane_acquire(false);
  if (!lane.ok())
    fatal_start(call, *parts.job);
  parts.endpoint = result{lane}.value();
}

void open_queues(const char *call, runtime::parts &parts) {
  TND_ASSERT(parts.job != nullptr);
  for (auto *const queue_slot : {&parts.queue, &parts.poll_queue}) {
    auto queue = parts.job->device_queue_open();
    if (!queue.ok())
      fatal_start(call, *parts.job);
    *queue_slot = std::move(queue).value();
  }
}

result<std::unique_ptr<runtime>> begin(const char *call, const request &wanted)
    TND_REQUIRES(lifecycle_mutex) {
  TND_ASSERT(lifecycle_mutex.is_held() && current_runtime == nullptr);
  settings chosen;
  chosen.device_support = wanted.device_support;
  TND_TRY(chosen.read_environment());
  runtime::parts parts;
  TND_TRY(open_launcher(parts));
  TND_TRY(start_job(parts, chosen));
  acquire_endpoint(call, parts);
  if (parts.job->me() == 0)
    chosen.print();
  open_queues(call, parts);
  auto instance = std::make_unique<runtime>(std::move(parts), chosen);
  instance->thread_level = wanted.thread_level;
  if (start_teams(*instance) != status::ok)
    fatal_start(call, *instance->job);
  if (instance->device && start_device(*instance) != status::ok)
    fatal_start(call, *instance->job);
  return instance;
}

// Returns SHMEM_CTX_INVALID if the program has destroyed all its contexts.
shmem_ctx_t last_context(runtime &current) {
  tanada::lock_guard const lock{current.contexts_mutex};
  return current.contexts.empty() ? SHMEM_CTX_INVALID : current.contexts.back()->handle();
}

// The last finalize: no PE continues before all have reached it. It is not a barrier: a departing
// PE does not pair with a barrier of the others.
void end(runtime &ending, departure_kind kind) TND_REQUIRES(lifecycle_mutex) {
  TND_ASSERT(lifecycle_mutex.is_held() && &ending == current_runtime);
  constexpr const char *call = "shmem_finalize";
  complete(ending, call);
  for (auto ctx = last_context(ending); ctx != SHMEM_CTX_INVALID; ctx = last_context(ending)) {
    ending.destroy_context(ctx, call);
  }
  static_cast<void>(return_code(ending.coordination->teams.leave(kind), {call}));
  if (ending.device)
    device_stop(ending);
  stop_teams(ending);
  current_runtime = nullptr;
  note_end();
  status const code = ending.job->finish();
  if (code != status::ok) {
    log(log_level::warning, "shmem_finalize: PE {}: the job did not end cleanly", ending.job->me());
  }
  delete &ending;
}

// A program that returns from main without shmem_finalize finalizes here (9.1.4, for start_pes). A
// program that exits with a failure does not wait for others: it exits unannounced, and the
// launcher ends the job.
void at_exit(int exit_status, void *) {
  if (owner != getpid())
    return;  // a forked child: the mutex may have been held at the fork
  tanada::lock_guard const lock{lifecycle_mutex};
  runtime *const current = running();
  if (current == nullptr || exit_status != 0)
    return;
  end(*current, departure_kind::exit);
}

void note_fork() {
  if (runtime *const current = running(); current != nullptr)
    current->has_forked = true;
}

// A forked child has the parent's memory, but is not a PE of the job.
void detach_child() {
  current_runtime = nullptr;
}

status ensure_running(const char *call, const request &wanted) {
  tanada::lock_guard const lock{lifecycle_mutex};
  if (runtime *const current = running(); current != nullptr) {
    TND_ASSERT(current->init_count > 0);
    current->init_count++;
    current->thread_level = std::max(current->thread_level, wanted.thread_level);
    return status::ok;
  }
  auto started = begin(call, wanted);
  if (!started.ok())
    return started.error();
  static const bool is_registered =
      on_exit(at_exit, nullptr) == 0 && pthread_atfork(nullptr, note_fork, detach_child) == 0;
  static_cast<void>(is_registered);
  owner = getpid();
  current_runtime = std::move(started).value().release();
  return status::ok;
}

void require_start(const char *call) {
  // The code that first detected the failure has set its message.
  if (ensure_running(call, {SHMEM_THREAD_SINGLE, 0}) != status::ok)
    fatal(call, "{}", last_message());
}

}  // namespace

// Handlers run in the reverse order of their registration. A library loaded while the job runs has
// registered later handlers, which shut CUDA down.
void end_before_later_libraries() noexcept {
  static_cast<void>(on_exit(at_exit, nullptr));
}

}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_init, (void), { require_start(call); })

// All levels are provided, and the queries return the requested one. Devices are available only if
// the first call requested them.
SHMEM_DEFINE(int, shmem_init_thread, (int requested, int *provided), {
  int const level = requested & ~device_support_all, devices = requested & device_support_all;
  if (level < SHMEM_THREAD_SINGLE || level > SHMEM_THREAD_MULTIPLE)
    return 1;
  if (ensure_running(call, {level, devices}) != tanada::status::ok)
    return 1;
  *provided = running()->thread_level | (running()->device_support & devices);
  return 0;
})

// Calls after the first are no-ops and need no finalize.
SHMEM_DEFINE(void, start_pes, (int), {
  if (running() == nullptr)
    require_start(call);
})

SHMEM_DEFINE(void, shmem_finalize, (void), {
  if (running() == nullptr && has_ended())
    return;  // an extra finalize is a no-op, as in other implementations
  auto &current = require_running(call);
  if (current.init_count > 1) {
    pshmem_barrier_all();
    current.init_count--;
    return;
  }
  tanada::lock_guard const lock{lifecycle_mutex};
  end(current, departure_kind::finalize);
})

SHMEM_DEFINE(void, shmem_query_initialized, (int *initialized), {
  *initialized = running() != nullptr ? 1 : 0;
})
SHMEM_DEFINE(void, shmem_query_thread, (int *provided), {
  *provided = require_running(call).thread_level;
})

SHMEM_DEFINE(void, shmem_global_exit, (int status), {
  auto &current = require_running(call);
  std::fflush(nullptr);
  if (current.job->count() > 1) {
    current.launcher->abort(status, call);
    std::_Exit(status);
  }
  current_runtime = nullptr;  // waits for no PE; the system frees the memory
  note_end();
  std::exit(status);
})
