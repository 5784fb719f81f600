// A call of a kernel that cannot be carried out, and a wait for what it should have sent. The job
// ends. Argument: what is wrong, "target", "pe" or "signal".
#include <string.h>

#include "check.h"

__global__ void send(int *target, const int *source, uint64_t *signal, int pe, uint64_t *own) {
  nvshmemx_putmem_signal_block(target, source, 4, signal, 1, NVSHMEM_SIGNAL_SET, pe);
  nvshmem_signal_wait_until(own, NVSHMEM_CMP_EQ, 1);
}

int main(int count, char **words) {
  start();
  const char *const what = count > 1 ? words[1] : "";
  int *const symmetric = symmetric_array(1, 0);
  uint64_t *const signal = symmetric_array(1, uint64_t{0});
  int *memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, 64));
  int const next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  send<<<1, 32>>>(strcmp(what, "target") == 0 ? memory : symmetric,
                  symmetric,
                  strcmp(what, "signal") == 0 ? reinterpret_cast<uint64_t *>(memory) : signal,
                  strcmp(what, "pe") == 0 ? nvshmem_n_pes() : next,
                  signal);
  CHECK_CUDA(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  fprintf(stderr, "went on\n");
  return end();
}
