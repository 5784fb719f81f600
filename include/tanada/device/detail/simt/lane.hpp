// tanada/device/detail/simt/lane.hpp: the lane index as read from the device's register.
#pragma once

#include "thread.hpp"

namespace tanada::simt {

// As lane_index(), but opaque to the compiler: it cannot derive anything from the value, except
// that it may differ between lanes.
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
