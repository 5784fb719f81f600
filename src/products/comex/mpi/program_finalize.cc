// products/comex/mpi/program_finalize.cc: intercepts MPI_Finalize, in which all processes wait for
// each other. After it each process runs to its end while memory may be swapped out.
#include "products/comex/heap/hooks.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"

using namespace tanada::comex;

namespace {

constinit bool is_intercepted = false;  // MPI_Finalize was called through this library

// MPI_Finalize calls this before anything else (MPI 3.1, section 8.7.1), except callbacks that the
// program has set later. Those find memory unchanged.
int on_finalize(MPI_Comm, int, void *, void *) {
  if (process_swapper *const swapper = current_swapper(); swapper != nullptr && is_intercepted)
    swapper->begin_mpi_finalize();
  return MPI_SUCCESS;
}

class finalize_scope {
 public:
  finalize_scope() noexcept : swapper_{current_swapper()} {
    is_intercepted = true;
  }
  ~finalize_scope() {
    if (swapper_ == nullptr)
      return;
    heap::stop_serving();
    swapper_->retire();  // if the program has not called comex_finalize
    require_ok("MPI_Finalize", swapper_->end_mpi_finalize());
  }
  finalize_scope(const finalize_scope &) = delete;
  finalize_scope &operator=(const finalize_scope &) = delete;

 private:
  process_swapper *const swapper_;
};

}  // namespace

void tanada::comex::watch_end_of_mpi() {
  int key = MPI_KEYVAL_INVALID;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr) != MPI_SUCCESS)
    return;
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

extern "C" [[gnu::visibility("default")]] int MPI_Finalize(void) {
  finalize_scope const waiting;
  return PMPI_Finalize();
}

extern "C" [[gnu::weak]] void pmpi_finalize_(MPI_Fint *);
extern "C" [[gnu::visibility("default")]] void mpi_finalize_(MPI_Fint *code) {
  finalize_scope const waiting;
  pmpi_finalize_(code);
}
