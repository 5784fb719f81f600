// MPI_Finalize, as programs call it: all wait for all in it, and afterwards each runs to its end
// with memory that may be away.
#include "products/comex/heap/hooks.hpp"
#include "products/comex/mpi/outside.hpp"

using namespace tanada::comex;

namespace {

constinit bool is_seen = false;  // MPI_Finalize has been called by way of this library

// MPI calls it first of all in MPI_Finalize (3.1, section 8.7.1), after the program's own that were
// set later: those find memory as it was.
int begin_end(MPI_Comm, int, void *, void *) {
  if (swapping *const away = current_swapping(); away != nullptr && is_seen)
    away->mpi_ends();
  return MPI_SUCCESS;
}

class end_of_mpi {
 public:
  end_of_mpi() noexcept : away_{current_swapping()} {
    is_seen = true;
  }
  ~end_of_mpi() {
    if (away_ == nullptr)
      return;
    heap::stop_serving();
    away_->retire();  // what has not called comex_finalize
    must("MPI_Finalize", away_->mpi_has_ended());
  }
  end_of_mpi(const end_of_mpi &) = delete;
  end_of_mpi &operator=(const end_of_mpi &) = delete;

 private:
  swapping *const away_;
};

}  // namespace

void tanada::comex::watch_end_of_mpi() {
  int key = MPI_KEYVAL_INVALID;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, begin_end, &key, nullptr) != MPI_SUCCESS)
    return;
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

extern "C" [[gnu::visibility("default")]] int MPI_Finalize(void) {
  end_of_mpi const waiting;
  return PMPI_Finalize();
}

extern "C" [[gnu::weak]] void pmpi_finalize_(MPI_Fint *);
extern "C" [[gnu::visibility("default")]] void mpi_finalize_(MPI_Fint *code) {
  end_of_mpi const waiting;
  pmpi_finalize_(code);
}
