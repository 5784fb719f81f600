// The last PE ends by a signal while kernels of the others wait for it: in a kernel's wait, on a
// stream, or in a collective. Their next call of the host ends the job.
#include <signal.h>
#include <string.h>

#include "check.h"

__global__ void wait_for_ever(uint64_t *word) {
  (void)nvshmem_signal_wait_until(word, NVSHMEM_CMP_EQ, 1);
}
__global__ void barrier_of_block() {
  nvshmemx_barrier_all_block();
}

int main(int count, char **words) {
  start();
  uint64_t *const word = symmetric_array(1, uint64_t{0});
  if (nvshmem_my_pe() == nvshmem_n_pes() - 1)
    raise(SIGKILL);
  const char *const where = count > 1 ? words[1] : "kernel";
  if (strcmp(where, "kernel") == 0)
    wait_for_ever<<<1, 1>>>(word);
  else if (strcmp(where, "stream") == 0)
    nvshmemx_signal_wait_until_on_stream(word, NVSHMEM_CMP_EQ, 1, 0);
  else
    barrier_of_block<<<1, 64>>>();
  CHECK_CUDA(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  return end();
}
