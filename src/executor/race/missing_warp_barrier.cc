// Planted race: the lanes of a warp assume that they run in lockstep.
#include <tanada/status.h>

#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/simt/thread.hpp>

int main() {
  using namespace tanada;
  u32 values[32] = {}, sums[32] = {};
  simt::host::launch(1, 32, [&] {
    u32 const lane = simt::lane_index();
    values[lane] = lane;
    simt::warp_barrier(simt::full_mask);
    u32 const neighbour = values[(lane + 31) % 32];  // a barrier is missing after this line
    values[lane] = neighbour + 1;
    simt::warp_barrier(simt::full_mask);
    sums[lane] = values[(lane + 1) % 32];
  });
  return simt::host::synchronize(TND_NO_DEADLINE) && sums[0] < 99 ? 0 : 1;
}
