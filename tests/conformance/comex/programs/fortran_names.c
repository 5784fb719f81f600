/* Fortran names of MPI calls, in a program that is not linked with MPI's Fortran library. libcomex
 * provides them and the library. */
#include "check.h"

void mpi_barrier_(MPI_Fint *, MPI_Fint *);
void mpi_allreduce_(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_isend_(
    void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_recv_(
    void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_wait_(MPI_Fint *, MPI_Fint *, MPI_Fint *);

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD), integer = MPI_Type_c2f(MPI_INT),
           sum = MPI_Op_c2f(MPI_SUM), one = 1, tag = 7, code = -1;
  MPI_Fint right = (me + 1) % count, left = (me + count - 1) % count, request = 0,
           status[sizeof(MPI_Status) / sizeof(MPI_Fint) + 1];
  int mine = me, total = -1, came = -1;
  mpi_barrier_(&world, &code);
  CHECK(code == MPI_SUCCESS, "%d", code);
  mpi_allreduce_(&mine, &total, &one, &integer, &sum, &world, &code);
  CHECK(code == MPI_SUCCESS && total == count * (count - 1) / 2, "%d, %d", code, total);
  mpi_isend_(&mine, &one, &integer, &right, &tag, &world, &request, &code);
  CHECK(code == MPI_SUCCESS, "%d", code);
  mpi_recv_(&came, &one, &integer, &left, &tag, &world, status, &code);
  CHECK(code == MPI_SUCCESS && came == left, "%d, %d", code, came);
  mpi_wait_(&request, status, &code);
  CHECK(code == MPI_SUCCESS, "%d", code);
  return end();
}
