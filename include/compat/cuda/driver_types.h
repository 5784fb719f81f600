// driver_types.h: included by CUDA's programs; all of it is in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
