// tanada/device/detail/simt/lane.hpp: the lane, as the device says it.
#pragma once

#include "thread.hpp"

namespace tanada::simt {

// lane_index(), from the register: compilers do not work out what comes of it, but for that it may
// differ from lane to lane.
TND_DEVICE inline u32 lane_register() {
#if TND_ON_DEVICE
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
#else
  return lane_index();
#endif
}

}  // namespace tanada::simt
