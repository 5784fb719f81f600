// Finding out from the environment which launcher started this process.
#include "backends/node/launch.hpp"

#include <cstring>

#include "core/base/config.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

// A launcher without PMIx. One variable has the number of processes it started, and another exists
// in each of them.
struct other_launcher {
  const char *name, *count_variable, *rank_variable, *advice;
};

constexpr other_launcher other_launchers[] = {
    // Not SLURM_NTASKS: a batch script has that, too, and is a single process.
    {"srun",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     "use srun --mpi=pmix (srun --mpi=list shows what this SLURM supports)"},
    {"mpirun",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "use the mpirun of an Open MPI built with PMIx"},
    {"a launcher that supports PMI but not PMIx",
     "PMI_SIZE",
     "PMI_RANK",
     "use oshrun, mpirun of Open MPI, prterun or srun --mpi=pmix"},
};

}  // namespace

result<launch_kind> launch_kind_of(const launch_environment &environment) {
  if (const char *wanted = environment("TND_BOOTSTRAP"); wanted != nullptr) {
    if (std::strcmp(wanted, "alone") == 0)
      return launch_kind::alone;
    if (std::strcmp(wanted, "pmix") == 0)
      return launch_kind::pmix;
    if (std::strcmp(wanted, "auto") != 0) {
      return fail(status::invalid, "TND_BOOTSTRAP={}: use auto, alone or pmix", wanted);
    }
  }
  if (environment("PMIX_NAMESPACE") != nullptr && environment("PMIX_RANK") != nullptr)
    return launch_kind::pmix;
  for (auto const &launcher : other_launchers) {
    const char *const count = environment(launcher.count_variable);
    if (count == nullptr || environment(launcher.rank_variable) == nullptr)
      continue;
    auto const parsed = parse_count(count, 2, INT32_MAX);
    if (!parsed.ok())
      continue;
    return fail(status::no_plugin,
                "{} started {} processes ({}) without PMIx, which they need to find one another: "
                "{}. TND_BOOTSTRAP=alone runs each process by itself",
                launcher.name,
                count,
                launcher.count_variable,
                launcher.advice);
  }
  return launch_kind::alone;
}

}  // namespace tanada::backends
