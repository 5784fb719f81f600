#include "contract/gpu_kernels.hpp"

#include "simt/launch.hpp"
#include "simt/thread.hpp"

namespace tanada::port {
namespace {

TND_KERNEL void arithmetic(uint64_t *values, u64 count) {
  u64 const i = simt::global_thread_rank();
  if (i < count) values[i] = 3 * values[i] + i;
}

TND_KERNEL void wait(uint32_t *started, uint32_t *go) {
  simt::system_atomic<u32>(*started).store_release(1);
  while (simt::system_atomic<u32>(*go).load_acquire() == 0) simt::pause();
}

TND_KERNEL void fault(u32 *nowhere) { *nowhere = 1; }

}  // namespace

void launch_arithmetic(uint64_t *values, uint64_t count) {
  simt::launch(u32((count + 127) / 128), 128, arithmetic, values, count);
}

void launch_wait(uint32_t *started, uint32_t *go) { simt::launch(1, 1, wait, started, go); }

void launch_fault() { simt::launch(1, 1, fault, reinterpret_cast<u32 *>(64)); }

}  // namespace tanada::port
