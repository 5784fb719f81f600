// shmemg/device.cuh: what kernels call. C++17, under nvcc and for the host executor.
#pragma once
