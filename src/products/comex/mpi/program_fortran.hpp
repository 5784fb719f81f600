// products/comex/mpi/program_fortran.hpp: what Fortran's calls of MPI are made of.
#pragma once

#include "products/comex/mpi/lent.hpp"
#include "products/comex/mpi/outside.hpp"
#include "products/comex/mpi/program_table.hpp"

namespace tanada::comex {

using word = MPI_Fint *;  // any argument

// Statuses that nobody looks at: MPI_STATUS_IGNORE has no name here.
inline thread_local MPI_Fint ignored_status[sizeof(MPI_Status) / sizeof(MPI_Fint)];

inline bool look_nothing(word given) noexcept {
  return look_memory(given);
}
inline bool look_text(word given) noexcept {
  return look_memory(given);
}
inline bool look_many(word) noexcept {
  return true;
}
inline bool look_derived(word given) noexcept {
  return look_memory(given) || look_derived(MPI_Type_f2c(*given));
}
inline bool look_user_op(word given) noexcept {
  return look_memory(given) || look_user_op(MPI_Op_f2c(*given));
}

// Until the request is over. With is_paced() alone; memory stays where it has to already.
void await(word request, word about, word code);

}  // namespace tanada::comex

extern "C" [[gnu::weak]] void pmpi_test_(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
extern "C" [[gnu::weak]] void pmpi_wait_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
