// products/comex/mpi/program_fortran.hpp: argument checks and waits of the Fortran MPI calls.
#pragma once

#include "products/comex/mpi/mpi_buffer_loans.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"
#include "products/comex/mpi/program_table.hpp"

namespace tanada::comex {

using word = MPI_Fint *;  // any argument

static_assert(sizeof(MPI_Status) % sizeof(MPI_Fint) == 0);
// For statuses that are ignored; Fortran's MPI_STATUS_IGNORE is not accessible here.
inline thread_local MPI_Fint ignored_status[sizeof(MPI_Status) / sizeof(MPI_Fint)];

inline bool look_nothing(word argument) noexcept {
  return look_memory(argument);
}
inline bool look_text(word argument) noexcept {
  return look_memory(argument);
}
inline bool look_many(word) noexcept {
  return true;
}
inline bool look_derived(word argument) noexcept {
  return look_memory(argument) || look_derived(MPI_Type_f2c(*argument));
}
inline bool look_user_op(word argument) noexcept {
  return look_memory(argument) || look_user_op(MPI_Op_f2c(*argument));
}

// Waits until the request is complete. Only if is_swapping_thread(); the caller already keeps
// memory resident where it must.
void wait_for_request(word request, word about, word code);

}  // namespace tanada::comex

extern "C" [[gnu::weak]] void pmpi_test_(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
extern "C" [[gnu::weak]] void pmpi_wait_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
