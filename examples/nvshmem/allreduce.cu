// examples/nvshmem/allreduce.cu: a sum over all PEs, around a ring, by one kernel of each PE.
// NVSHMEM's interface and nothing of Tanada's: nvcc compiles it for GPUs, tanada-nvcc for
// processors.
//
//   tanada-nvcc -O2 allreduce.cu -o allreduce && oshrun -n 4 ./allreduce
//
// The array has a part for each PE. In the first round of steps a PE passes partial sums on, and
// ends with the whole sum of one part. In the second round it passes whole sums on.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#define CHECK_CUDA(CALL)                                                  \
  do {                                                                    \
    cudaError_t const error = (CALL);                                     \
    if (error != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #CALL, cudaGetErrorString(error)); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)

// Symmetric memory. `arrivals` has a word for each step, so that none is set twice in a call.
struct ring {
  float *values, *received;  // all parts; a part for each step of the first round
  uint64_t *arrivals;
  size_t part_size;
  uint64_t turn;  // the number of this call, which the words are set to
};

__device__ int part_before(int part, int steps, int pe_count) {
  return (part + pe_count - steps) % pe_count;
}

// The next PE receives a part, and the signal after it.
__device__ void pass_on(const ring &all, float *target, int part, int step, int next) {
  nvshmemx_float_put_signal_block(target,
                                  all.values + size_t(part) * all.part_size,
                                  all.part_size,
                                  all.arrivals + step,
                                  all.turn,
                                  NVSHMEM_SIGNAL_SET,
                                  next);
}

__device__ void wait_for(const ring &all, int step) {
  if (threadIdx.x == 0)
    nvshmem_signal_wait_until(all.arrivals + step, NVSHMEM_CMP_GE, all.turn);
  __syncthreads();
}

__global__ void sum_around_ring(ring all) {
  int const me = nvshmem_my_pe(), pe_count = nvshmem_n_pes(), next = (me + 1) % pe_count;
  int const steps = pe_count - 1;
  for (int step = 0; step < steps; step++) {
    float *const slot = all.received + size_t(step) * all.part_size;
    pass_on(all, slot, part_before(me, step, pe_count), step, next);
    wait_for(all, step);
    float *const sums = all.values + size_t(part_before(me, step + 1, pe_count)) * all.part_size;
    for (size_t i = threadIdx.x; i < all.part_size; i += blockDim.x)
      sums[i] += slot[i];
    __syncthreads();
  }
  for (int step = 0; step < steps; step++) {
    int const part = part_before(me + 1, step, pe_count);
    pass_on(all, all.values + size_t(part) * all.part_size, part, steps + step, next);
    wait_for(all, steps + step);
  }
}

static void choose_device() {
  int device_count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&device_count));
  CHECK_CUDA(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % device_count));
}

static ring create_ring(size_t part_size) {
  size_t const pe_count = size_t(nvshmem_n_pes());
  ring all{};
  all.part_size = part_size;
  all.values = static_cast<float *>(nvshmem_malloc(pe_count * part_size * sizeof(float)));
  all.received = static_cast<float *>(nvshmem_malloc(pe_count * part_size * sizeof(float)));
  all.arrivals = static_cast<uint64_t *>(nvshmem_calloc(2 * pe_count, sizeof(uint64_t)));
  if (all.values == nullptr || all.received == nullptr || all.arrivals == nullptr) {
    std::fprintf(stderr, "allreduce: no symmetric memory: NVSHMEM_SYMMETRIC_SIZE\n");
    nvshmem_global_exit(1);
  }
  return all;
}

// Every PE contributes its number plus 1 in each element. Returns whether the sums are right.
static bool run(ring &all, std::vector<float> &host, cudaStream_t stream) {
  int const me = nvshmem_my_pe(), pe_count = nvshmem_n_pes();
  size_t const size = host.size() * sizeof(float);
  for (float &value : host)
    value = float(me + 1);
  CHECK_CUDA(cudaMemcpyAsync(all.values, host.data(), size, cudaMemcpyHostToDevice, stream));
  nvshmemx_barrier_all_on_stream(stream);  // nobody writes before all have their values
  all.turn++;
  void *arguments[] = {&all};
  if (nvshmemx_collective_launch(
          reinterpret_cast<const void *>(sum_around_ring), 1, 256, arguments, 0, stream) != 0)
    return false;
  CHECK_CUDA(cudaMemcpyAsync(host.data(), all.values, size, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (float value : host)
    if (value != float(pe_count) * float(pe_count + 1) / 2)
      return false;
  return true;
}

int main() {
  nvshmem_init();
  choose_device();
  ring all = create_ring(4096);
  std::vector<float> host(all.part_size * size_t(nvshmem_n_pes()));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  bool is_right = true;
  for (int turn = 0; turn < 3; turn++)
    is_right = run(all, host, stream) && is_right;
  std::printf("PE %d of %d: %s\n", nvshmem_my_pe(), nvshmem_n_pes(), is_right ? "right" : "WRONG");
  CHECK_CUDA(cudaStreamDestroy(stream));
  nvshmem_free(all.values);
  nvshmem_free(all.received);
  nvshmem_free(all.arrivals);
  nvshmem_finalize();
  return is_right ? 0 : 1;
}
