// init, finalize, error.
#include <cstdio>

#include "core/base/log.hpp"
#include "products/comex/heap/hooks.hpp"
#include "products/comex/mpi/outside.hpp"

using namespace tanada::comex;

namespace tanada::comex {
namespace {

// Ranks of a node have the same environment. The lowest reads it first, and ends the job if it is
// wrong: one line is logged, not one for each rank.
status read_in_turn(settings &chosen, mpi_bootstrap &launcher) {
  auto const &node_ranks = launcher.node_ranks();
  bool const is_first = node_ranks.empty() || node_ranks.front() == launcher.rank();
  if (is_first)
    TND_TRY(chosen.read_environment());
  TND_TRY(launcher.barrier(TND_NO_DEADLINE));
  return is_first ? status::ok : chosen.read_environment();
}

status begin(process &made, MPI_Comm everybody, MPI_Errhandler theirs) {
  auto launcher = mpi_bootstrap::open(everybody);
  if (!launcher.ok())
    return launcher.error();
  made.launcher = std::move(launcher).value();
  settings chosen;
  TND_TRY(read_in_turn(chosen, *made.launcher));
  if (chosen.swap.is_on() && !sees_calls())
    return status::not_supported;
  // Who waits for our part of a message of MPI's gets it.
  auto const idle = [everybody] {
    int is_there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, everybody, &is_there, MPI_STATUS_IGNORE);
  };
  auto running = engine::start(*made.launcher, chosen, idle);
  if (!running.ok())
    return running.error();
  made.engine = std::move(running).value();
  if (made.engine->away() != nullptr) {
    heap::serve_program(made.engine->pieces(), chosen.swap.threshold);
    watch_end_of_mpi();
  }
  group world{.world = {}};
  if (MPI_Comm_dup(everybody, &world.communicator) != MPI_SUCCESS)
    return fail(status::io, "MPI_Comm_dup");
  // Programs get it: what goes wrong with their own messages is told in their way.
  MPI_Comm_set_errhandler(world.communicator, theirs);
  world.rank = made.engine->me();
  for (pe_index pe = 0; pe < made.engine->count(); pe++)
    world.world.push_back(pe);
  made.groups.emplace_back(std::move(world));
  return status::ok;
}

// A program that begins again: all that it still has of the memory before comes back, and stays.
void end_retired(const char *call) {
  heap::stop_serving();
  process *const before = retired_process;
  must(call, before->engine->stop());
  (void)before->engine.release();
  retired_process = nullptr;
  delete before;
}

int start(const char *call, MPI_Comm given, int *argc, char ***argv) noexcept {
  if (current_process != nullptr)
    return COMEX_SUCCESS;
  std::unique_ptr<process> made;
  try {
    int has_mpi = 0, provided = 0;
    MPI_Initialized(&has_mpi);
    if (has_mpi == 0 && MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
      fatal(call, "MPI cannot be started");
    if (retired_process != nullptr)
      end_retired(call);
    made = std::make_unique<process>();
    if (MPI_Comm_dup(given == MPI_COMM_NULL ? MPI_COMM_WORLD : given, &made->communicator) !=
        MPI_SUCCESS) {
      fatal(call, "the communicator is none");
    }
    MPI_Errhandler theirs = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(made->communicator, &theirs);
    MPI_Comm_set_errhandler(made->communicator, MPI_ERRORS_RETURN);
    current_process = made.get();
    must(call, begin(*made, made->communicator, theirs));
    if (theirs != MPI_ERRHANDLER_NULL)
      MPI_Errhandler_free(&theirs);
    (void)made.release();
    return COMEX_SUCCESS;
  } catch (const std::exception &thrown) {
    fatal(call, "%s", thrown.what());
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
    if (self.engine->away() != nullptr) {  // the program has memory that leaves until it ends
      must("comex_finalize", self.engine->retire());
      retired_process = &self;
      current_process = nullptr;
      return COMEX_SUCCESS;
    }
    must("comex_finalize", self.engine->stop());
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
