// products/comex/mpi/program_attributes.cc: intercepts the program's callbacks for attributes of
// communicators. It uses addresses only, since mpi.h may not declare the older names, or may
// declare them so that they do not compile.
#include <cstdint>

namespace tanada::comex {

void attribute_functions_made(const void *copy, const void *release) noexcept;  // mpi_wait_scope.cc

}  // namespace tanada::comex

#define EXPORTED extern "C" [[gnu::visibility("default")]]
#define WEAK extern "C" [[gnu::weak]]

WEAK int PMPI_Comm_create_keyval(void *copy, void *release, int *key, void *state);
WEAK int PMPI_Keyval_create(void *copy, void *release, int *key, void *state);
EXPORTED int MPI_Comm_create_keyval(void *copy, void *release, int *key, void *state) {
  tanada::comex::attribute_functions_made(copy, release);
  return PMPI_Comm_create_keyval(copy, release, key, state);
}
EXPORTED int MPI_Keyval_create(void *copy, void *release, int *key, void *state) {
  tanada::comex::attribute_functions_made(copy, release);
  return PMPI_Keyval_create(copy, release, key, state);
}

// Fortran's no-op functions have names of their own, so they all count as functions of the program.
#define FORTRAN(NAME)                                                                            \
  WEAK void pmpi_##NAME##_(void *copy, void *release, int32_t *key, void *state, int32_t *code); \
  EXPORTED void mpi_##NAME##_(                                                                   \
      void *copy, void *release, int32_t *key, void *state, int32_t *code) {                     \
    tanada::comex::attribute_functions_made(copy, release);                                      \
    pmpi_##NAME##_(copy, release, key, state, code);                                             \
  }
FORTRAN(comm_create_keyval)
FORTRAN(keyval_create)
EXPORTED void mpi_comm_create_keyval_f08_(
    void *copy, void *release, int32_t *key, void *state, int32_t *code) {
  int32_t left_out = 0;
  mpi_comm_create_keyval_(copy, release, key, state, code == nullptr ? &left_out : code);
}
