// The service kernel: a block of warps that performs the commands that host code posts
// (service.hpp), and kernels for when it cannot.
//
// Some warps poll for commands. A poll takes a round trip across the bus, and loads of one warp, or
// from one address, wait for one another. So each warp polls its own view, at staggered times. The
// first warp that sees the next command performs it, with the helpers for large copies, and
// publishes its progress. So commands are performed in order.
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/performer.cuh"

namespace tanada::backends::cuda {
namespace {

// Reads the slots of a sequence and the next: half a warp reads each.
__device__ inline uint64_t poll(const ring_memory *ring, uint32_t view, uint32_t sequence) {
  uint32_t const slot = (sequence + lane() / word_count) % slot_count;
  uint64_t word;
  asm volatile(
      "ld.relaxed.sys.global.u64 %0, [%1];"
      : "=l"(word)
      : "l"(__cvta_generic_to_global(&ring->commands[view][slot].words[lane() % word_count]))
      : "memory");
  return word;
}

constexpr uint32_t command_lanes = word_count / 2;  // lanes that load one command
constexpr uint32_t commands_at_once = simt::warp_size / command_lanes;
constexpr uint32_t load_count = batch_size / commands_at_once;
static_assert(command_lanes == 8 && load_count * commands_at_once == batch_size);

// Loads this lane's words of the next commands: each load reads four commands.
__device__ inline void load_batch(const performer &self, u64 (&words)[load_count][2]) {
  uint32_t const group = lane() / command_lanes;
  uint32_t const first = lane() % command_lanes * 2;
#pragma unroll
  for (uint32_t k = 0; k < load_count; k++) {
    uint32_t const slot = (self.next + k * commands_at_once + group) % slot_count;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(words[k][0]), "=l"(words[k][1])
                 : "l"(__cvta_generic_to_global(&self.run.ring->commands[0][slot].words[first]))
                 : "memory");
  }
}

// Polls for many commands at once.
__device__ uint32_t poll_batch(const performer &self) {
  uint32_t const group = lane() / command_lanes;
  uint32_t const first = lane() % command_lanes * 2;
  u64 words[load_count][2];
  load_batch(self, words);
  uint32_t count = 0;
#pragma unroll
  for (uint32_t i = 0; i < batch_size; i++) {
    uint32_t const k = i / commands_at_once;
    uint32_t const expected = self.next + count;
    bool const is_next =
        uint32_t(words[k][0] >> 32) == expected && uint32_t(words[k][1] >> 32) == expected;
    uint32_t const shift = i % commands_at_once * command_lanes;
    if ((__ballot_sync(simt::full_mask, is_next) >> shift & 0xffu) != 0xffu)
      return count;
    if (group == i % commands_at_once) {
      auto *const destination = reinterpret_cast<volatile uint32_t *>(&self.shared.batch[i]);
      destination[first] = uint32_t(words[k][0]);
      destination[first + 1] = uint32_t(words[k][1]);
    }
    count++;
  }
  return count;
}

// Called by the warp that has the turn: performs the commands that a poll returned and those that
// follow directly.
__device__ void perform_from(performer &self, uint64_t word) {
  uint32_t count = self.collect(word, 0);
  while (count != 0) {
    self.perform_batch(count);
    count = count >= 2 ? poll_batch(self) : 0;
  }
  self.report();
}

// Called by the warp that has the turn. A host thread that posts without seeing `closing` has
// posted before it was set, and the last poll finds its command.
__device__ void stop_serving(performer &self) {
  publish_word(self.run.ring->closing, self.run.generation);
  __syncwarp();
  simt::fence_system();
  for (uint32_t count = poll_batch(self); count != 0; count = poll_batch(self))
    self.perform_batch(count);
  self.report();
  fence_stores();
  if (lane() == 0) {
    u64 const end = u64(self.run.generation) << 32 | self.next;
    simt::system_atomic<u64>(*reinterpret_cast<u64 *>(&self.run.ring->ended)).store_relaxed(end);
    self.shared.shared_command.kind = command_kind::nothing;
    store_volatile(self.shared.has_ended, 1u);
  }
  workers{}.sync();
}

// The difference may be negative: another warp may have changed idle_since after this warp read the
// clock.
__device__ inline uint32_t idle_time_ns(const block_state &shared) {
  auto const time = int64_t(simt::now_ns() - load_volatile(shared.idle_since));
  return time < 0 ? 0 : uint32_t(time);
}

// Each warp polls its own view. The first that sees the next command takes the turn.
__device__ void poll_and_perform(block_state &shared, const service_run &run) {
  uint32_t const view = threadIdx.x / simt::warp_size;
  __nanosleep(view * 1000 / poller_count);  // staggers the warps
  for (uint32_t round = 1;; round++) {
    uint32_t const expected = from_first_lane(load_volatile(shared.next));
    uint64_t const word = poll(run.ring, view, expected);
    bool const is_there =
        (__ballot_sync(simt::full_mask, uint32_t(word >> 32) == expected) & 0xffffu) == 0xffffu;
    if (from_first_lane(load_volatile(shared.has_ended)) != 0)
      return;
    bool is_late = false;
    if (view == 0 && round % 16 == 0)
      is_late = from_first_lane(idle_time_ns(shared)) >= run.idle_ns;
    if (!is_there && !is_late)
      continue;
    if (!take_turn(shared, expected))
      continue;
    performer self{shared, run};
    if (is_there)
      perform_from(self, word);
    if (self.is_stopping || !is_there)
      return stop_serving(self);
    if (lane() == 0)
      store_volatile(shared.idle_since, u64(simt::now_ns()));
    pass_turn(shared, self.next);
  }
}

// Run by the other warps.
__device__ void help_all(const block_state &shared) {
  for (;;) {
    workers{}.sync();
    if (shared.shared_command.kind == command_kind::nothing)
      return;
    performer::move(workers{}, shared.shared_command, shared.annex);
    fence_stores();
    workers{}.sync();
  }
}

// Returns false if the host retracted the command before this run began. At least one side sees the
// other's store.
__device__ bool is_to_serve(const service_run &run) {
  simt::system_atomic<u32>(run.ring->started).store_relaxed(run.generation);
  simt::fence_system();
  u32 const canceled = simt::system_atomic<u32>(run.ring->canceled).load_relaxed();
  if (!is_reached(run.generation, canceled)) {
    simt::system_atomic<u32>(run.ring->serving).store_relaxed(run.generation);
    return true;
  }
  simt::system_atomic<u32>(run.ring->closing).store_relaxed(run.generation);
  simt::fence_system();
  simt::system_atomic<u64>(*reinterpret_cast<u64 *>(&run.ring->ended))
      .store_relaxed(u64(run.generation) << 32 | run.first);
  return false;
}

__global__ void __launch_bounds__(warp_count *simt::warp_size) serve(service_run run) {
  __shared__ block_state shared;
  __shared__ bool serves;
  if (threadIdx.x == 0) {
    serves = is_to_serve(run);
    shared.next = run.first;
    shared.turn = run.first;
    shared.has_ended = 0;
    shared.idle_since = simt::now_ns();
  }
  __syncthreads();
  uint32_t const warp = threadIdx.x / simt::warp_size;
  if (!serves)
    return;
  if (warp >= poller_count)
    help_all(shared);
  else
    poll_and_perform(shared, run);
}

__global__ void update_once(command request, uint64_t *before) {
  uint64_t const old_value = perform_update(request);
  if (before != nullptr)
    store_shared(reinterpret_cast<uint64_t>(before), old_value);
}

struct whole_grid {
  __device__ uint64_t rank() const {
    return blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
  }
  __device__ uint64_t size() const {
    return gridDim.x * uint64_t(blockDim.x);
  }
};

__global__ void copy_rows(command request) {
  perform_rows(whole_grid{}, request);
}

template <class Kernel>
cudaError_t load(Kernel *kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace

cudaError_t load_kernels() {
  cudaError_t error = load(serve);
  if (error == cudaSuccess)
    error = load(update_once);
  return error == cudaSuccess ? load(copy_rows) : error;
}

cudaError_t launch_service(cudaStream_t stream, const service_run &run) {
  serve<<<1, warp_count * simt::warp_size, 0, stream>>>(run);
  return cudaGetLastError();
}

cudaError_t launch_update(cudaStream_t stream, const command &request, uint64_t *before) {
  update_once<<<1, 1, 0, stream>>>(request, before);
  return cudaGetLastError();
}

cudaError_t launch_rows(cudaStream_t stream, const command &request) {
  constexpr uint32_t block_size = 256, block_count_max = 512;
  uint64_t const wanted = (request.size * request.rows.count / 8 + block_size - 1) / block_size;
  uint32_t const block_count = wanted < 1                 ? 1
                               : wanted > block_count_max ? block_count_max
                                                          : uint32_t(wanted);
  copy_rows<<<block_count, block_size, 0, stream>>>(request);
  return cudaGetLastError();
}

}  // namespace tanada::backends::cuda
