#include "backends/node/launch.hpp"

#include <cstring>

#include "core/base/config.hpp"
#include "core/base/log.hpp"

namespace tanada::port {
namespace {

// A launcher without PMIx: how many processes it started is in one variable, and another is there
// in each of them.
struct other_launcher {
  const char *name, *count_variable, *rank_variable, *advice;
};

constexpr other_launcher other_launchers[] = {
    // Not SLURM_NTASKS: a batch script has that too, and is one process.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
     "start them by srun --mpi=pmix (srun --mpi=list shows what this SLURM has)"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "start them by the mpirun of an Open MPI that is built with PMIx"},
    {"a launcher that speaks PMI but not PMIx", "PMI_SIZE", "PMI_RANK",
     "start them by oshrun, or by mpirun of Open MPI, prterun or srun --mpi=pmix"},
};

}  // namespace

result<launch_kind> launch_kind_of(const launch_environment &environment) {
  if (const char *wanted = environment("TND_BOOTSTRAP"); wanted != nullptr) {
    if (std::strcmp(wanted, "alone") == 0)
      return launch_kind::alone;
    if (std::strcmp(wanted, "pmix") == 0)
      return launch_kind::pmix;
    if (std::strcmp(wanted, "auto") != 0) {
      return fail(status::invalid, "TND_BOOTSTRAP=%s: use auto, alone or pmix", wanted);
    }
  }
  if (environment("PMIX_NAMESPACE") != nullptr && environment("PMIX_RANK") != nullptr)
    return launch_kind::pmix;
  for (auto const &each : other_launchers) {
    const char *const count = environment(each.count_variable);
    if (count == nullptr || environment(each.rank_variable) == nullptr)
      continue;
    auto const parsed = parse_count(count, 2, INT32_MAX);
    if (!parsed.ok())
      continue;
    return fail(status::no_plugin,
                "%s started %s processes (%s) and offers no PMIx, by which they would find one "
                "another: %s. TND_BOOTSTRAP=alone "
                "lets each run alone",
                each.name, count, each.count_variable, each.advice);
  }
  return launch_kind::alone;
}

}  // namespace tanada::port
