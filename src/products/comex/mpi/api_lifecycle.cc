// products/comex/mpi/api_lifecycle.cc: init, finalize and error.
#include <cstdio>

#include "core/base/log.hpp"
#include "products/comex/heap/hooks.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"

using namespace tanada::comex;

namespace tanada::comex {
namespace {

// Ranks of a node have the same environment. The lowest one reads it first, and ends the job if it
// is wrong, so that one line is logged and not one for each rank.
status read_in_turn(settings &config, mpi_bootstrap &launcher) {
  auto const &node_ranks = launcher.node_ranks();
  bool const is_first = node_ranks.empty() || node_ranks.front() == launcher.rank();
  if (is_first)
    TND_TRY(config.read_environment());
  TND_TRY(launcher.barrier(TND_NO_DEADLINE));
  return is_first ? status::ok : config.read_environment();
}

// Creates the group of all processes, whose communicator programs get: errors of their own messages
// are handled as they chose.
status create_world(process &self, MPI_Comm everybody, MPI_Errhandler program_handler) {
  TND_ASSERT(self.groups.empty());
  group world{.world = {}};
  if (MPI_Comm_dup(everybody, &world.communicator) != MPI_SUCCESS)
    return fail(status::io, "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world.communicator, program_handler);
  world.rank = self.engine->me();
  for (pe_index pe = 0; pe < self.engine->count(); pe++)
    world.world.push_back(pe);
  self.groups.emplace_back(std::move(world));
  return status::ok;
}

status begin(process &self, MPI_Comm everybody, MPI_Errhandler program_handler) {
  auto launcher = mpi_bootstrap::open(everybody);
  if (!launcher.ok())
    return launcher.error();
  self.launcher = std::move(launcher).value();
  settings config;
  TND_TRY(read_in_turn(config, *self.launcher));
  if (config.swap.is_on() && !intercepts_calls())
    return status::not_supported;
  // Lets MPI make progress, for ranks that wait for our part of a message.
  auto const idle = [everybody] {
    int is_there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, everybody, &is_there, MPI_STATUS_IGNORE);
  };
  auto running = engine::start(*self.launcher, config, idle);
  if (!running.ok())
    return running.error();
  self.engine = std::move(running).value();
  if (self.engine->swapper() != nullptr) {
    heap::serve_program(self.engine->allocator(), config.swap.threshold);
    watch_end_of_mpi();
  }
  return create_world(self, everybody, program_handler);
}

// For a program that initializes comex again: the memory that it still has from before is swapped
// in and stays resident.
void stop_retired(const char *call) {
  heap::stop_serving();
  process *const before = retired_process;
  TND_ASSERT(before != nullptr && current_process == nullptr);
  require_ok(call, before->engine->stop());
  (void)before->engine.release();
  retired_process = nullptr;
  delete before;
}

int start(const char *call, MPI_Comm communicator, int *argc, char ***argv) noexcept {
  if (current_process != nullptr)
    return COMEX_SUCCESS;
  std::unique_ptr<process> self;
  try {
    int has_mpi = 0, provided = 0;
    MPI_Initialized(&has_mpi);
    if (has_mpi == 0 && MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
      fatal(call, "MPI cannot be started");
    if (retired_process != nullptr)
      stop_retired(call);
    self = std::make_unique<process>();
    if (MPI_Comm_dup(communicator == MPI_COMM_NULL ? MPI_COMM_WORLD : communicator,
                     &self->communicator) != MPI_SUCCESS) {
      fatal(call, "the communicator is invalid");
    }
    MPI_Errhandler program_handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(self->communicator, &program_handler);
    MPI_Comm_set_errhandler(self->communicator, MPI_ERRORS_RETURN);
    current_process = self.get();
    require_ok(call, begin(*self, self->communicator, program_handler));
    if (program_handler != MPI_ERRHANDLER_NULL)
      MPI_Errhandler_free(&program_handler);
    (void)self.release();
    return COMEX_SUCCESS;
  } catch (const std::exception &thrown) {
    fatal(call, "{}", thrown.what());
  }
}

}  // namespace
}  // namespace tanada::comex

extern "C" {

int comex_init(void) {
  return start("comex_init", MPI_COMM_NULL, nullptr, nullptr);
}
int comex_init_args(int *argc, char ***argv) {
  return start("comex_init_args", MPI_COMM_NULL, argc, argv);
}
int comex_init_comm(MPI_Comm comm) {
  return start("comex_init_comm", comm, nullptr, nullptr);
}
int comex_initialized(void) {
  return current_process != nullptr ? 1 : 0;
}

int comex_finalize(void) {
  if (current_process == nullptr)
    return COMEX_SUCCESS;
  return guarded("comex_finalize", [](process &self) {
    barrier(self, "comex_finalize", COMEX_GROUP_WORLD);
    if (self.engine->swapper() != nullptr) {  // the program's memory stays swappable until it ends
      TND_ASSERT(retired_process == nullptr);
      require_ok("comex_finalize", self.engine->retire());
      retired_process = &self;
      current_process = nullptr;
      return COMEX_SUCCESS;
    }
    require_ok("comex_finalize", self.engine->stop());
    current_process = nullptr;
    delete &self;
    return COMEX_SUCCESS;
  });
}

void comex_error(const char *msg, int code) {
  char text[1024];
  std::snprintf(text, sizeof text, "%s: %d", msg == nullptr ? "" : msg, code);
  end_job("comex_error", text, code);
}

}  // extern "C"
