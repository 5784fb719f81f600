// A start by a unique id, with the launcher's numbers, or with others that it must refuse.
#include <string.h>

#include "check.h"

int main(int count, char **words) {
  bool const is_wrong = count > 1 && strcmp(words[1], "wrong") == 0;
  const char *const rank = getenv("OMPI_COMM_WORLD_RANK"), *total = getenv("OMPI_COMM_WORLD_SIZE");
  int const me = rank != nullptr ? atoi(rank) : 0, all = total != nullptr ? atoi(total) : 1;
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  CHECK(nvshmemx_get_uniqueid(&id) == NVSHMEMX_SUCCESS);
  CHECK(nvshmemx_set_attr_uniqueid_args(me, all + (is_wrong ? 1 : 0), &id, &attributes) ==
        NVSHMEMX_SUCCESS);
  int const code = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
  if (is_wrong)
    return code == NVSHMEMX_ERROR_INVALID_VALUE ? 3 : 1;
  CHECK(code == NVSHMEMX_SUCCESS);
  CHECK(nvshmemx_init_status() >= NVSHMEM_STATUS_IS_INITIALIZED);
  CHECK(nvshmem_my_pe() == me && nvshmem_n_pes() == all);
  CHECK(nvshmem_ptr(symmetric_array(1, 0), me) != nullptr);
  return end();
}
