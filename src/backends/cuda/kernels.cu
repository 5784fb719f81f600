// The service kernel: a block of warps that performs what host code posts (service.hpp), and
// kernels for when it cannot.
//
// Some warps look for commands. Looking takes a way across the bus and back, and loads of one warp,
// or of one place, wait for one another: so each looks at a view of its own, one after the other.
// Who sees the next command first performs it, with the helpers where there is much to copy, and
// tells how far it got; so they are performed in order.
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/performer.cuh"

namespace tanada::port::cuda {
namespace {

// The command of a sequence and the next: half a warp each.
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

// Where there is much, it is looked for together: four commands by each load.
__device__ uint32_t look_for_many(const performer &by) {
  constexpr uint32_t lanes = word_count / 2, at_once = simt::warp_size / lanes,
                     load_count = batch_size / at_once;
  uint32_t const group = lane() / lanes, first = lane() % lanes * 2;
  u64 words[load_count][2];
#pragma unroll
  for (uint32_t k = 0; k < load_count; k++) {
    uint32_t const slot = (by.next + k * at_once + group) % slot_count;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(words[k][0]), "=l"(words[k][1])
                 : "l"(__cvta_generic_to_global(&by.run.ring->commands[0][slot].words[first]))
                 : "memory");
  }
  uint32_t count = 0;
#pragma unroll
  for (uint32_t i = 0; i < batch_size; i++) {
    uint32_t const k = i / at_once, wanted = by.next + count;
    bool const is_it =
        uint32_t(words[k][0] >> 32) == wanted && uint32_t(words[k][1] >> 32) == wanted;
    if ((__ballot_sync(simt::full_mask, is_it) >> i % at_once * lanes & 0xffu) != 0xffu)
      return count;
    if (group == i % at_once) {
      auto *const there = reinterpret_cast<volatile uint32_t *>(&by.shared.batch[i]);
      there[first] = uint32_t(words[k][0]);
      there[first + 1] = uint32_t(words[k][1]);
    }
    count++;
  }
  return count;
}

// While one has the turn: performs what a poll has brought, and what comes right behind it.
__device__ void perform_from(performer &mine, uint64_t word) {
  uint32_t count = mine.collect(word, 0);
  while (count != 0) {
    mine.perform_batch(count);
    count = count >= 2 ? look_for_many(mine) : 0;
  }
  mine.report();
}

// Has the turn. Whoever posts and does not see `left` has posted before it was said: a last look
// finds that.
__device__ void leave(performer &mine) {
  tell(mine.run.ring->left, mine.run.generation);
  __syncwarp();
  simt::fence_system();
  for (uint32_t count = look_for_many(mine); count != 0; count = look_for_many(mine))
    mine.perform_batch(count);
  mine.report();
  fence_stores();
  if (lane() == 0) {
    u64 const end = u64(mine.run.generation) << 32 | mine.next;
    simt::system_atomic<u64>(*reinterpret_cast<u64 *>(&mine.run.ring->ended)).store_relaxed(end);
    mine.shared.help.kind = command_kind::nothing;
    store_volatile(mine.shared.has_ended, 1u);
  }
  workers{}.sync();
}

// Another warp may have changed it after this one's look at the clock.
__device__ inline uint32_t idle_time_ns(const desk &shared) {
  auto const time = int64_t(simt::now_ns() - load_volatile(shared.idle_since));
  return time < 0 ? 0 : uint32_t(time);
}

// Each looks at a view of its own, and whoever sees the next command first takes the turn.
__device__ void look_and_perform(desk &shared, const service_run &run) {
  uint32_t const view = threadIdx.x / simt::warp_size;
  __nanosleep(view * 1000 / looker_count);  // one after the other
  for (uint32_t round = 1;; round++) {
    uint32_t const expected = of_first_lane(load_volatile(shared.next));
    uint64_t const word = poll(run.ring, view, expected);
    bool const is_there =
        (__ballot_sync(simt::full_mask, uint32_t(word >> 32) == expected) & 0xffffu) == 0xffffu;
    if (of_first_lane(load_volatile(shared.has_ended)) != 0)
      return;
    bool is_late = false;
    if (view == 0 && round % 16 == 0)
      is_late = of_first_lane(idle_time_ns(shared)) >= run.idle_ns;
    if (!is_there && !is_late)
      continue;
    if (!take_turn(shared, expected))
      continue;
    performer mine{shared, run};
    if (is_there)
      perform_from(mine, word);
    if (mine.is_to_rest || !is_there)
      return leave(mine);
    if (lane() == 0)
      store_volatile(shared.idle_since, u64(simt::now_ns()));
    pass_turn(shared, mine.next);
  }
}

// The other warps.
__device__ void help_all(const desk &shared) {
  for (;;) {
    workers{}.sync();
    if (shared.help.kind == command_kind::nothing)
      return;
    performer::move(workers{}, shared.help, shared.annex);
    fence_stores();
    workers{}.sync();
  }
}

// Nothing is served where the host took it all back before this began: one of the two sees what the
// other stored.
__device__ bool is_to_serve(const service_run &run) {
  simt::system_atomic<u32>(run.ring->started).store_relaxed(run.generation);
  simt::fence_system();
  u32 const canceled = simt::system_atomic<u32>(run.ring->canceled).load_relaxed();
  if (!is_reached(run.generation, canceled)) {
    simt::system_atomic<u32>(run.ring->serving).store_relaxed(run.generation);
    return true;
  }
  simt::system_atomic<u32>(run.ring->left).store_relaxed(run.generation);
  simt::fence_system();
  simt::system_atomic<u64>(*reinterpret_cast<u64 *>(&run.ring->ended))
      .store_relaxed(u64(run.generation) << 32 | run.first);
  return false;
}

__global__ void __launch_bounds__(warp_count *simt::warp_size) serve(service_run run) {
  __shared__ desk shared;
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
  if (warp >= looker_count)
    help_all(shared);
  else
    look_and_perform(shared, run);
}

__global__ void update_once(command what, uint64_t *before) {
  uint64_t const there = perform_update(what);
  if (before != nullptr)
    store_shared(reinterpret_cast<uint64_t>(before), there);
}

struct whole_grid {
  __device__ uint64_t rank() const {
    return blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
  }
  __device__ uint64_t size() const {
    return gridDim.x * uint64_t(blockDim.x);
  }
};

__global__ void copy_rows(command what) {
  perform_rows(whole_grid{}, what);
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

cudaError_t launch_update(cudaStream_t stream, const command &what, uint64_t *before) {
  update_once<<<1, 1, 0, stream>>>(what, before);
  return cudaGetLastError();
}

cudaError_t launch_rows(cudaStream_t stream, const command &what) {
  constexpr uint32_t block_size = 256, block_count_max = 512;
  uint64_t const wanted = (what.size * what.rows.count / 8 + block_size - 1) / block_size;
  uint32_t const block_count = wanted < 1                 ? 1
                               : wanted > block_count_max ? block_count_max
                                                          : uint32_t(wanted);
  copy_rows<<<block_count, block_size, 0, stream>>>(what);
  return cudaGetLastError();
}

}  // namespace tanada::port::cuda
