// init, finalize, error.
#include <cstdio>

#include "base/log.hpp"
#include "comex/mpi/process.hpp"

using namespace tanada::comex;

namespace tanada::comex {
namespace {

status begin(process &made, MPI_Comm everybody) {
  auto launcher = mpi_bootstrap::open(everybody);
  if (!launcher.ok()) return launcher.error();
  made.launcher = std::move(launcher).value();
  settings chosen;
  TND_TRY(chosen.read_environment());
  auto running = engine::start(*made.launcher, chosen);
  if (!running.ok()) return running.error();
  made.engine = std::move(running).value();
  group world{.world = {}};
  if (MPI_Comm_dup(everybody, &world.communicator) != MPI_SUCCESS) return fail(status::io, "MPI_Comm_dup");
  world.rank = made.engine->me();
  for (pe_index pe = 0; pe < made.engine->count(); pe++) world.world.push_back(pe);
  made.groups.emplace_back(std::move(world));
  return status::ok;
}

int start(const char *call, MPI_Comm given, int *argc, char ***argv) noexcept {
  if (current_process != nullptr) return COMEX_SUCCESS;
  try {
    int has_mpi = 0, provided = 0;
    MPI_Initialized(&has_mpi);
    if (has_mpi == 0 && MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) fatal(call, "MPI cannot be started");
    auto made = std::make_unique<process>();
    if (MPI_Comm_dup(given == MPI_COMM_NULL ? MPI_COMM_WORLD : given, &made->communicator) != MPI_SUCCESS) {
      fatal(call, "the communicator is none");
    }
    MPI_Comm_set_errhandler(made->communicator, MPI_ERRORS_RETURN);
    current_process = made.get();
    must(call, begin(*made, made->communicator));
    (void)made.release();
    return COMEX_SUCCESS;
  } catch (const std::exception &thrown) {
    fatal(call, "%s", thrown.what());
  }
}

}  // namespace
}  // namespace tanada::comex

extern "C" {

int comex_init(void) { return start("comex_init", MPI_COMM_NULL, nullptr, nullptr); }
int comex_init_args(int *argc, char ***argv) { return start("comex_init_args", MPI_COMM_NULL, argc, argv); }
int comex_init_comm(MPI_Comm comm) { return start("comex_init_comm", comm, nullptr, nullptr); }
int comex_initialized(void) { return current_process != nullptr ? 1 : 0; }

int comex_finalize(void) {
  return guarded("comex_finalize", [](process &self) {
    barrier(self, "comex_finalize", COMEX_GROUP_WORLD);
    must("comex_finalize", self.engine->stop());
    current_process = nullptr;
    delete &self;
    return COMEX_SUCCESS;
  });
}

void comex_error(const char *msg, int code) {
  std::fflush(stdout);
  int const rank = current_process != nullptr && current_process->launcher ? int(current_process->launcher->rank()) : -1;
  std::fprintf(stderr, "comex_error: process %d: %s: %d\n", rank, msg == nullptr ? "" : msg, code);
  std::fflush(stderr);
  int has_mpi = 0;
  MPI_Initialized(&has_mpi);
  if (has_mpi != 0) MPI_Abort(current_process != nullptr ? current_process->communicator : MPI_COMM_WORLD, code == 0 ? 1 : code);
  std::_Exit(code == 0 ? 1 : code);
}

}  // extern "C"
