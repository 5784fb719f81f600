// products/comex/armci/lifecycle.cc: start, end and errors of ARMCI, and start and end of MPI.
#include <cstdio>
#include <cstdlib>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

ARMCI_DEFINE(int, ARMCI_Init, (void), {
  require_ok(call, "comex_init", comex_init());
  start(call);
  return COMEX_SUCCESS;
})

ARMCI_DEFINE(int, ARMCI_Init_args, (int *argc, char ***argv), {
  require_ok(call, "comex_init_args", comex_init_args(argc, argv));
  start(call);
  return COMEX_SUCCESS;
})

ARMCI_DEFINE(int, ARMCI_Init_mpi_comm, (MPI_Comm comm), {
  if (comex_init_comm(comm) != COMEX_SUCCESS)
    return 0;
  start(call);
  return 1;
})

ARMCI_DEFINE(int, ARMCI_Initialized, (void), { return comex_initialized(); })

ARMCI_DEFINE(void, ARMCI_Finalize, (void), {
  if (!is_running())
    return;
  cancel_kept_messages(call);
  stop(call);
  require_ok(call, "comex_finalize", comex_finalize());
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Error, (const char *msg, int code), {
  if (comex_initialized())
    comex_error(msg, code);
  std::fprintf(stderr, "ARMCI_Error: %s: %d\n", msg, code);
  std::_Exit((code & 0xff) == 0 ? 1 : code);
})

ARMCI_DEFINE_PLAIN(void, ARMCI_Cleanup, (void), {})

ARMCI_DEFINE_PLAIN(void, armci_msg_init, (int *argc, char ***argv), {
  int is_initialized = 0;
  require_mpi_ok(call, "MPI_Initialized", MPI_Initialized(&is_initialized));
  if (!is_initialized)
    require_mpi_ok(call, "MPI_Init", MPI_Init(argc, argv));
})

ARMCI_DEFINE_PLAIN(void, armci_msg_finalize, (void), {
  int is_initialized = 0;
  require_mpi_ok(call, "MPI_Initialized", MPI_Initialized(&is_initialized));
  if (!is_initialized)
    fatal(call, "MPI is not initialized");
  require_mpi_ok(call, "MPI_Finalize", MPI_Finalize());
})

ARMCI_DEFINE_PLAIN(void, armci_msg_abort, (int code), {
  comex_error(call, code);
  std::_Exit((code & 0xff) == 0 ? 1 : code);
})

ARMCI_DEFINE_PLAIN(double, armci_timer, (void), { return MPI_Wtime(); })

ARMCI_DEFINE_PLAIN(void, ARMCI_Set_shm_limit, ([[maybe_unused]] unsigned long shmemlimit), {})

ARMCI_DEFINE_PLAIN(int, ARMCI_Uses_shm, (void), { return 0; })

ARMCI_DEFINE_PLAIN(int, ARMCI_Uses_shm_grp, ([[maybe_unused]] ARMCI_Group * group), { return 0; })
