// cuda_runtime.h: CUDA's runtime and the functions of kernels, for the host executor. Sources that
// have kernels are compiled by tanada-nvcc; docs/nvshmem.md lists what there is.
#pragma once

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "cuda_runtime_api.h"
#include "device_functions.h"
