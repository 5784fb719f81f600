// The beginning and the end: init, finalize, global exit, and programs that end without.
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
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/device_init.hpp"
#include "products/shmem/device_side.hpp"
#include "products/shmem/heap.hpp"

namespace tanada::shmem {
namespace {

constinit mutex lifecycle_mutex;  // one begins or ends at a time
constinit pid_t owner = 0;        // a child of fork() is no PE

struct request {
  int thread_level;    // SHMEM_THREAD_*
  int device_support;  // SHMEM_DEVICE_*_INIT
};

// How long a PE has to notice by itself that the launcher is gone, in a call that then fails with a
// better message.
constexpr std::chrono::seconds launcher_grace{2};

// By a thread of the launcher's library. A PE that is in the program's own code, and calls nothing,
// would stay for ever.
void end_without_launcher(int me) {
  auto const end = [me] {
    std::this_thread::sleep_for(launcher_grace);
    std::fprintf(stderr,
                 "shmem: PE %d: the connection to the launcher was lost (it was killed?): this "
                 "process ends\n",
                 me);
    std::_Exit(1);
  };
  try {
    std::thread{end}.detach();
  } catch (const std::system_error &) {
    end();
  }
}

result<std::unique_ptr<runtime>> begin(const char *call, const request &wanted) {
  settings chosen;
  chosen.device_support = wanted.device_support;
  TND_TRY(chosen.read_environment());
  runtime::parts parts;
  auto launcher = port::bootstrap_open();
  if (!launcher.ok())
    return launcher.error();
  parts.launcher = std::move(launcher).value();
  parts.launcher->watch_launcher([me = int(parts.launcher->rank())] { end_without_launcher(me); });
  chosen.job.control_size = control_size(parts.launcher->count());
  if (wanted.device_support != 0) {
    auto device = choose_device(*parts.launcher);
    if (!device.ok())
      return device.error();
    parts.device = std::move(device).value();
    chosen.job.device = parts.device.get();
    chosen.job.device_control_size = device_control_size(parts.launcher->count());
  }
  auto job = pgas::job::start(*parts.launcher, chosen.job);
  if (!job.ok())
    return job.error();
  parts.job = std::move(job).value();
  auto const lane = parts.job->lane_acquire(false);
  if (!lane.ok())
    fatal_start(call, *parts.job);
  parts.endpoint = result{lane}.value();
  if (parts.job->me() == 0)
    chosen.print();
  for (auto *const each : {&parts.queue, &parts.looks}) {
    auto queue = parts.job->device_queue_open();
    if (!queue.ok())
      fatal_start(call, *parts.job);
    *each = std::move(queue).value();
  }
  auto made = std::make_unique<runtime>(std::move(parts), chosen);
  made->thread_level = wanted.thread_level;
  if (start_teams(*made) != status::ok)
    fatal_start(call, *made->job);
  if (made->device && start_device(*made) != status::ok)
    fatal_start(call, *made->job);
  return made;
}

// The last finalize: no PE goes on before all are here. It is no barrier: a PE that ends does not
// take part in one of the others.
void end(runtime &ending, departure_kind kind) {
  constexpr const char *call = "shmem_finalize";
  complete(ending, call);
  while (!ending.contexts.empty())
    ending.destroy_context(ending.contexts.back()->handle(), call);
  static_cast<void>(told(ending.coordination->teams.leave(kind), {call}));
  if (ending.device)
    device_stop(ending);
  stop_teams(ending);
  current_runtime = nullptr;
  note_end();
  status const code = ending.job->finish();
  if (code != status::ok) {
    log(log_level::warning, "shmem_finalize: PE %d: the job did not end in good order",
        int(ending.job->me()));
  }
  delete &ending;
}

// A program that returns from main without shmem_finalize does it here (9.1.4, of start_pes). One
// that says that it has failed does not wait for others: it leaves without a word, and the launcher
// ends them.
void at_exit(int exit_status, void *) {
  if (owner != getpid())
    return;  // a child, whose mutex may have been held when it was made
  tanada::lock_guard const lock{lifecycle_mutex};
  runtime *const left = running();
  if (left == nullptr || exit_status != 0)
    return;
  end(*left, departure_kind::exit);
}

void note_fork() {
  if (runtime *const current = running(); current != nullptr)
    current->has_forked = true;
}

// A child is no PE: it has the parent's memory, and no part in the job.
void leave_to_parent() {
  current_runtime = nullptr;
}

status ensure_running(const char *call, const request &wanted) {
  tanada::lock_guard const lock{lifecycle_mutex};
  if (runtime *const current = running(); current != nullptr) {
    current->init_count++;
    current->thread_level = std::max(current->thread_level, wanted.thread_level);
    return status::ok;
  }
  auto made = begin(call, wanted);
  if (!made.ok())
    return made.error();
  static const bool is_registered =
      on_exit(at_exit, nullptr) == 0 && pthread_atfork(nullptr, note_fork, leave_to_parent) == 0;
  static_cast<void>(is_registered);
  owner = getpid();
  current_runtime = std::move(made).value().release();
  return status::ok;
}

void require_start(const char *call) {
  // Of every status the message has been kept where it was first known.
  if (ensure_running(call, {SHMEM_THREAD_SINGLE, 0}) != status::ok)
    fatal(call, "%s", last_message().c_str());
}

}  // namespace

// Handlers run in the reverse order of their registration: a library that was loaded while the job
// runs has its own, which end CUDA for it.
void end_before_later_libraries() noexcept {
  static_cast<void>(on_exit(at_exit, nullptr));
}

}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_init, (void), { require_start(call); })

// All levels are provided; what was asked for is what the queries tell. Devices are there if the
// first call has asked for them.
SHMEM_DEFINE(int, shmem_init_thread, (int requested, int *provided), {
  int const level = requested & ~device_support_all, devices = requested & device_support_all;
  if (level < SHMEM_THREAD_SINGLE || level > SHMEM_THREAD_MULTIPLE)
    return 1;
  if (ensure_running(call, {level, devices}) != tanada::status::ok)
    return 1;
  *provided = running()->thread_level | (running()->device_support & devices);
  return 0;
})

// Every call after the first does nothing, and needs no finalize.
SHMEM_DEFINE(void, start_pes, (int), {
  if (running() == nullptr)
    require_start(call);
})

SHMEM_DEFINE(void, shmem_finalize, (void), {
  if (running() == nullptr && has_ended())
    return;  // once more than shmem_init: as in other implementations
  auto &current = require_running(call);
  if (current.init_count > 1) {
    pshmem_barrier_all();
    current.init_count--;
    return;
  }
  tanada::lock_guard const lock{lifecycle_mutex};
  end(current, departure_kind::finalize);
})

SHMEM_DEFINE(void, shmem_query_initialized, (int *initialized),
             { *initialized = running() != nullptr ? 1 : 0; })
SHMEM_DEFINE(void, shmem_query_thread, (int *provided),
             { *provided = require_running(call).thread_level; })

SHMEM_DEFINE(void, shmem_global_exit, (int status), {
  auto &current = require_running(call);
  std::fflush(nullptr);
  if (current.job->count() > 1) {
    current.launcher->abort(status, call);
    std::_Exit(status);
  }
  current_runtime = nullptr;  // nobody is waited for; the system takes the memory back
  note_end();
  std::exit(status);
})
