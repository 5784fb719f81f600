// bench/shmemg/nvshmem_job.hpp: NVSHMEM without a launcher.
#pragma once

#include <nvshmem.h>
#include <nvshmemx.h>

#include "by_file.hpp"

namespace nvshmem_job {

/// Joins all processes, each on its device, to a job.
inline void start() {
  by_file::choose_device();
  int const rank = by_file::rank();
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0 && nvshmemx_get_uniqueid(&id) != 0)
    by_file::fail("no id");
  by_file::share(id);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (nvshmemx_set_attr_uniqueid_args(rank, by_file::count(), &id, &attributes) != 0)
    by_file::fail("NVSHMEM takes no id");
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0)
    by_file::fail("NVSHMEM does not start");
}

}  // namespace nvshmem_job
