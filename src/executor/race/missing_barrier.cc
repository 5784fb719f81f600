// Planted race: a barrier is missing between the write of one thread and the reads of the others.
#include <tanada/status.h>

#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/simt/thread.hpp>

int main() {
  using namespace tanada;
  simt::host::launch(1, 64, [] {
    TND_SHARED(u32, value);
    simt::block_barrier();
    if (simt::thread_rank_in_block() == 63)
      value = 1;
    u32 const observed = value;
    simt::block_barrier();
    if (observed == 2)
      simt::pause();
  });
  return simt::host::synchronize(TND_NO_DEADLINE) ? 0 : 1;
}
