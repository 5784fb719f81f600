// tanada/device/detail/shmem/calls/all.hpp: the bodies of compat/shmemg/device.cuh. Not for direct
// inclusion.
#pragma once

#include "reduce.hpp"
