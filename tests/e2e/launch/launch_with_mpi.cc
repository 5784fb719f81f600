// A process that uses MPI and seams::bootstrap, which share the process's PMIx.
// usage: launch_with_mpi ORDER, a word of these letters:
//   i, f  MPI_Init, MPI_Finalize
//   o, c  open and close the bootstrap
//   x     synchronize by MPI and by the bootstrap, whichever is open
// With "oxixfxc" the bootstrap opens before MPI and closes after it.
#include <mpi.h>

#include <cstdio>
#include <memory>

#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap.hpp"

namespace {

constexpr uint64_t patience_ns = 20'000'000'000;

using launcher = std::unique_ptr<tanada::seams::bootstrap>;

bool meet(launcher &ours) {
  int is_initialized = 0, is_finalized = 0, rank = -1;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  bool const has_mpi = is_initialized != 0 && is_finalized == 0;
  if (has_mpi && (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
                  MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS))
    return false;
  if (ours == nullptr)
    return true;
  return ours->exchange(patience_ns) == tanada::status::ok && (!has_mpi || ours->rank() == rank);
}

bool step(char what, launcher &ours) {
  switch (what) {
    case 'i':
      return MPI_Init(nullptr, nullptr) == MPI_SUCCESS;
    case 'f':
      return MPI_Finalize() == MPI_SUCCESS;
    case 'o': {
      auto opened = tanada::seams::bootstrap_open();
      if (opened.ok())
        ours = std::move(opened).value();
      return opened.ok() && ours->count() > 1;
    }
    case 'c':
      ours.reset();
      return true;
    default:
      return meet(ours);
  }
}

}  // namespace

int main(int argc, char **argv) {
  launcher ours;
  for (const char *each = argc > 1 ? argv[1] : ""; *each != 0; each++) {
    if (!step(*each, ours)) {
      std::printf("%s fails: %s\n", each, tanada::last_message().c_str());
      return 1;
    }
  }
  std::printf("well\n");
}
